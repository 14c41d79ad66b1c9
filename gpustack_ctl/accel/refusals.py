"""Why a claim has no place, in words: what was needed, what was there, and the cards that came nearest.

The admission check and the allocator refuse in the same words, because both ask here. A refusal counts what a person
would count (free cards, shares, slices of that size, places for that profile) and names the cards that almost served.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpustack_ctl.accel.cards import CardState
from gpustack_ctl.accel.families import Family
from gpustack_ctl.accel.requests import ContainerDemand
from gpustack_ctl.accel.units import PERCENT_UNITS


class Cause(StrEnum):
    """Why a claim has no place."""

    UNKNOWN_CARD = "UnknownCard"
    UNHEALTHY = "Unhealthy"
    WRONG_POPULATION = "WrongPopulation"
    WRONG_COUNT = "WrongCount"
    SAME_CARD_TWICE = "SameCardTwice"
    HELD = "HeldInAnotherMode"
    NO_SLOT = "NoSliceSlot"
    NO_UNITS = "NotEnoughMemory"
    NO_CARDS = "NotEnoughCards"
    NO_PARTITIONED_CARD = "NoPartitionedCard"
    NO_LEDGER = "LedgerNotPublished"
    PROFILE_UNKNOWN = "ProfileNotOffered"
    PROFILE_FULL = "ProfileFull"
    NO_NODE = "NodeGone"
    NOT_PINNED = "OtherCardCount"
    UNREADABLE = "DemandUnreadable"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a claim has no place, for a program (`cause`) and for a person (`message`)."""

    cause: Cause
    message: str

    def __str__(self) -> str:
        return self.message


def shortfall(
    demand: ContainerDemand, states: Sequence[CardState], *, akey: str | None = None, pods: int = 1
) -> Refusal:
    """What `pods` times the claim needs of these cards, what is there, and the nearest cards.

    `states` are all cards of the claim's manufacturer or model, those included that cannot serve it.
    """
    needs = _needs(demand, akey or demand.manufacturer, pods)
    if not states:
        return Refusal(Cause.NO_LEDGER, f"{needs}, the node has published no ledger of such cards yet")
    if demand.family is Family.PARTITIONED and (refusal := _no_such_partition(demand, states, needs)):
        return refusal
    serving = [state for state in states if state.card.serves(demand.family)]
    healthy = [state for state in serving if state.card.healthy]
    cause = Cause.PROFILE_FULL if demand.family is Family.PARTITIONED else Cause.NO_CARDS
    return Refusal(cause, f"{needs}, {_there(demand, healthy)}{_nearest(serving)}")


def room(demand: ContainerDemand, states: Sequence[CardState]) -> int:
    """How many such claims, and nothing else, the cards could take at the most.

    Exact for claims of one card; for several cards each an upper bound, since it does not ask for distinct ones.
    """
    able = [state for state in states if state.card.healthy and state.card.serves(demand.family)]
    match demand.family:
        case Family.EXCLUSIVE:
            parts = sum(state.free for state in able)
        case Family.SHARED:
            parts = sum(state.shares_free for state in able)
            if sum(state.shares_free > 0 for state in able) < demand.cards:
                return 0
        case Family.SLICED:
            parts = sum(_slices_that_fit(demand, state) for state in able)
        case Family.PARTITIONED:
            parts = sum(len(state.free_placements(demand.profile or "")) for state in able)
    return parts // demand.cards


def percent(units: int) -> str:
    """Units as a share of one card: `37.5%`."""
    return f"{round(units / PERCENT_UNITS, 1):g}%"


def _needs(demand: ContainerDemand, model: str, pods: int) -> str:
    count = demand.cards * pods
    match demand.family:
        case Family.EXCLUSIVE:
            return f"needs {count} whole {model} {_accelerators(count)}"
        case Family.SHARED if pods == 1:
            return f"needs a share on {demand.cards} distinct {model} {_accelerators(demand.cards)}"
        case Family.SHARED:
            return f"needs {pods} times a share on {demand.cards} distinct {model} {_accelerators(demand.cards)}"
        case Family.SLICED:
            slices = "a slice" if count == 1 else f"{count} slices"
            return f"needs {slices} of {percent(demand.units)} on {model} accelerators"
        case Family.PARTITIONED:
            return (
                f"needs {count} {demand.profile} {'partition' if count == 1 else 'partitions'} on {model} accelerators"
            )


def _accelerators(count: int) -> str:
    return "accelerator" if count == 1 else "accelerators"


def _no_such_partition(demand: ContainerDemand, states: Sequence[CardState], needs: str) -> Refusal | None:
    partitioned = [state.card for state in states if state.card.partitioned]
    if not partitioned:
        return Refusal(Cause.NO_PARTITIONED_CARD, f"{needs}, none of its cards is partitioned")
    if any(card.profile(demand.profile or "") for card in partitioned):
        return None
    offered = sorted({profile.name for card in partitioned for profile in card.profiles})
    return Refusal(Cause.PROFILE_UNKNOWN, f"{needs}, its cards offer {', '.join(offered) or 'no profile'}")


def _there(demand: ContainerDemand, healthy: Sequence[CardState]) -> str:
    """What the healthy cards have of the kind that was asked for."""
    match demand.family:
        case Family.EXCLUSIVE:
            return f"{sum(state.free for state in healthy)} free"
        case Family.SHARED:
            shares = [state.shares_free for state in healthy if state.shares_free]
            return f"{len(shares)} with a free share, {sum(shares)} shares in all"
        case Family.SLICED:
            return f"room for {sum(_slices_that_fit(demand, state) for state in healthy)}"
        case Family.PARTITIONED:
            return f"room for {sum(len(state.free_placements(demand.profile or '')) for state in healthy)}"


def _slices_that_fit(demand: ContainerDemand, state: CardState) -> int:
    if not state.fits_slice(demand.units):
        return 0
    return min(state.slots_free, state.remaining // demand.units) if demand.units else state.slots_free


def _nearest(serving: Iterable[CardState]) -> str:
    """The cards that came nearest: taken in part before taken whole, the least taken first."""
    taken = [state for state in serving if not (state.free and state.card.healthy)]
    near = [state for state in taken if state.remaining] or taken
    if not near:
        return ""
    near.sort(key=lambda state: (not state.card.healthy, -state.remaining))
    shown = ", ".join(state.describe() for state in near[:_SHOWN])
    more = f" and {len(near) - _SHOWN} more" if len(near) > _SHOWN else ""
    return f" ({shown}{more})"


_SHOWN = 4
