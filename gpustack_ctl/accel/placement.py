"""Where a container's claim goes on a node: the one packing order, and the one set of refusals.

The device plugin's hint, Allocate and the admission check all ask here, which is what makes them agree. ``choose``
packs: a slice goes to the fullest card that still fits it, so that whole cards stay whole; a share to cards already
shared; whole cards from one NUMA node where possible; a partition where it leaves the most for larger ones. ``check``
judges cards that somebody else chose, as the kubelet does, and says in plain words why a card cannot be had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpustack_ctl.accel.cards import Card, Holding, NodeCards, PodKey
from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.accel.ledger import Entry
from gpustack_ctl.accel.requests import ContainerDemand


@dataclass(frozen=True, slots=True)
class Planned:
    """A card set aside for a container by the admission check; profile and start for a partition only."""

    card: str
    profile: str = ""
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One card given to one container."""

    container: str
    card: Card
    mode: Mode
    units: int
    profile: str = ""
    placement: Placement | None = None

    def holding(self, pod: PodKey) -> Holding:
        """The choice as the Pod's holding on the card."""
        return Holding(pod, self.container, self.mode, self.units, self.profile, self._placements())

    def entry(self) -> Entry:
        """The choice as an entry of the Pod's allocation record."""
        card = self.card
        return Entry(
            card.group, card.manufacturer, card.id, card.index, self.mode, self.units, self.profile, self._placements()
        )

    def planned(self) -> Planned:
        """The choice as a plan names it."""
        return Planned(self.card.id, self.profile, self.placement.start if self.placement else None)

    def _placements(self) -> tuple[Placement, ...]:
        return (self.placement,) if self.placement else ()


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a claim has no place, for a program (``cause``) and for a person (``message``)."""

    cause: Cause
    message: str

    def __str__(self) -> str:
        return self.message


def choose(
    demand: ContainerDemand,
    cards: NodeCards,
    *,
    prefer: Sequence[Planned] = (),
    avoid: Iterable[Planned] = (),
    offered: Collection[str] | None = None,
    akey: str | None = None,
) -> tuple[Choice, ...] | Refusal:
    """Give the container its cards in packing order, or say why it cannot have them.

    ``prefer`` is the Pod's own plan, followed as far as it still holds; ``avoid`` is what is planned for other Pods,
    given away last; ``offered`` limits the cards by id (those whose tokens the kubelet offers); ``akey`` limits them to
    one model.
    """
    raise NotImplementedError


def check(demand: ContainerDemand, card_ids: Sequence[str], cards: NodeCards) -> Refusal | None:
    """Judge the cards that the kubelet chose, one id per token. Leave the container's own holdings out of ``cards``.

    For a partition the ids are only a quantity: ``choose`` decides the card.
    """
    raise NotImplementedError


def choices(demand: ContainerDemand, card_ids: Sequence[str], cards: NodeCards) -> tuple[Choice, ...]:
    """Cards that passed ``check`` as choices, to reserve and to record."""
    raise NotImplementedError


def with_choices(cards: NodeCards, pod: PodKey, chosen: Iterable[Choice]) -> NodeCards:
    """The node once the Pod holds what was chosen."""
    raise NotImplementedError
