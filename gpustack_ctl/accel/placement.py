"""Where a container's claim goes on a node: the one packing order, and the one set of refusals.

The device plugin's hint, Allocate and the admission check all ask here, which is what makes them agree. `choose`
packs: a slice goes to the fullest card that still fits it, so that whole cards stay whole; a share to cards already
shared; whole cards from one NUMA node where possible; a partition where it leaves the most for larger ones. `check`
judges cards that somebody else chose, as the kubelet does, and says in plain words why a card cannot be had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpustack_ctl.accel.cards import Card, CardState, Holding, NodeCards, PodKey
from gpustack_ctl.accel.families import Family, Mode
from gpustack_ctl.accel.geometry import Placement, best_placement, free_placements, mask_of, what_it_costs
from gpustack_ctl.accel.records import Entry
from gpustack_ctl.accel.refusals import Cause, Refusal, percent, shortfall
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

    @classmethod
    def of(cls, demand: ContainerDemand, card: Card, placement: Placement | None = None) -> Choice:
        """The card, or the place on it, for one part of the claim."""
        return cls(demand.container, card, demand.family.mode, demand.units, demand.profile or "", placement)

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

    `prefer` is the Pod's own plan, followed as far as it still holds; `avoid` is what is planned for other Pods,
    given away last; `offered` limits the cards by id (those whose tokens the kubelet offers); `akey` limits them to
    one model.
    """
    mine = _of_demand(demand, cards, akey)
    able = [
        state
        for state in mine
        if state.card.healthy and state.card.serves(demand.family) and (offered is None or state.card.id in offered)
    ]
    others = tuple(avoid)
    if demand.family is Family.PARTITIONED:
        chosen = _partitions(demand, able, prefer, others)
    else:
        chosen = _whole_or_part(demand, able, prefer, others)
    if len(chosen) < demand.cards:
        return shortfall(demand, mine, akey=akey)
    return tuple(chosen)


def check(
    demand: ContainerDemand, card_ids: Sequence[str], cards: NodeCards, *, slice_gate: bool = True
) -> Refusal | None:
    """Judge the cards that the kubelet chose, one id per token. Leave the container's own holdings out of `cards`.

    For a partition the ids are only a quantity: `choose` decides the card. Without `slice_gate` a slice needs
    neither a slot nor its units.
    """
    if len(card_ids) != demand.cards:
        return Refusal(
            Cause.WRONG_COUNT,
            f"container {demand.container} asks for {demand.cards} devices, {len(card_ids)} were given",
        )
    if demand.family is Family.PARTITIONED:
        return None
    seen: set[str] = set()
    for card_id in card_ids:
        if refusal := _refuse_card(demand, card_id, cards, slice_gate=slice_gate):
            return refusal
        if card_id in seen:
            asked = f"container {demand.container} asks for {demand.cards} distinct accelerators"
            return Refusal(Cause.SAME_CARD_TWICE, f"{card_id} was given twice: {asked}")
        seen.add(card_id)
    return None


def choices(demand: ContainerDemand, card_ids: Iterable[str], cards: NodeCards) -> tuple[Choice, ...]:
    """Cards that passed `check` as choices, to reserve and to record."""
    states = (cards.get(card_id) for card_id in card_ids)
    return tuple(Choice.of(demand, state.card) for state in states if state)


def with_choices(cards: NodeCards, pod: PodKey, chosen: Iterable[Choice]) -> NodeCards:
    """The node once the Pod holds what was chosen."""
    for choice in chosen:
        cards = cards.with_holding(choice.card.id, choice.holding(pod))
    return cards


def accepts(demand: ContainerDemand, state: CardState) -> bool:
    """Whether the card has room for one of the claim's parts now: a card, a share, a slice or a partition."""
    match demand.family:
        case Family.EXCLUSIVE:
            return state.free
        case Family.SHARED:
            return state.shares_free > 0
        case Family.SLICED:
            return state.fits_slice(demand.units)
        case Family.PARTITIONED:
            return bool(state.free_placements(demand.profile or ""))


def _of_demand(demand: ContainerDemand, cards: NodeCards, akey: str | None) -> list[CardState]:
    """The cards of the demand's manufacturer, or of the one model."""
    return [
        state
        for state in cards.states
        if state.card.manufacturer == demand.manufacturer and (akey is None or state.card.akey == akey)
    ]


def _whole_or_part(
    demand: ContainerDemand, able: Iterable[CardState], prefer: Sequence[Planned], avoid: Sequence[Planned]
) -> list[Choice]:
    """Distinct cards: the planned ones first, those planned for others last, in between the family's own order."""
    fitting = [state for state in able if accepts(demand, state)]
    wanted = {planned.card: at for at, planned in reversed(list(enumerate(prefer)))}
    spoken_for = {planned.card for planned in avoid}
    mine = sorted((state for state in fitting if state.card.id in wanted), key=lambda state: wanted[state.card.id])
    rest = [state for state in fitting if state.card.id not in wanted]
    ordered = mine[: demand.cards]
    for group in (
        [state for state in rest if state.card.id not in spoken_for],
        [state for state in rest if state.card.id in spoken_for],
    ):
        ordered += _packed(demand, group, demand.cards - len(ordered))
    return [Choice.of(demand, state.card) for state in ordered]


def _packed(demand: ContainerDemand, fitting: Sequence[CardState], wanted: int) -> Sequence[CardState]:
    """The first `wanted` cards in the family's packing order."""
    match demand.family:
        case Family.EXCLUSIVE:
            return _from_one_numa(fitting, wanted)
        case Family.SHARED:
            # Cards already shared first. Among them the one with most shares left, so that none fills up early: later
            # containers then still find as many distinct cards as can be.
            return sorted(fitting, key=lambda state: (state.free, -state.shares_free))[:wanted]
        case _:
            return sorted(fitting, key=lambda state: (state.free, state.remaining))[:wanted]


def _from_one_numa(fitting: Sequence[CardState], wanted: int) -> Sequence[CardState]:
    """Cards of the smallest NUMA node that has them all; else from as few NUMA nodes as possible."""
    nodes: dict[int, list[CardState]] = {}
    for state in fitting:
        nodes.setdefault(_NO_NUMA if state.card.numa is None else state.card.numa, []).append(state)
    enough = [numa for numa, states in nodes.items() if len(states) >= wanted]
    if enough:
        return nodes[min(enough, key=lambda numa: (len(nodes[numa]), numa))][:wanted]
    largest_first = sorted(nodes, key=lambda numa: (-len(nodes[numa]), numa))
    return [state for numa in largest_first for state in nodes[numa]][:wanted]


_NO_NUMA = -1


def _partitions(
    demand: ContainerDemand, able: Sequence[CardState], prefer: Sequence[Planned], avoid: Sequence[Planned]
) -> list[Choice]:
    """One placement per instance: as planned, else where it spares the larger profiles, on the fullest such card."""
    profile = demand.profile or ""
    occupied = {state.card.id: state.occupied for state in able}
    cards = {state.card.id: state.card for state in able}
    spoken_for = dict.fromkeys(occupied, 0)
    for planned in avoid:
        if planned.card in cards:
            spoken_for[planned.card] |= _planned_mask(cards[planned.card], planned)
    mine = [planned for planned in prefer if planned.card in cards and planned.profile == profile]
    chosen: list[Choice] = []
    while len(chosen) < demand.cards:
        place = _planned_place(mine, cards, occupied) or _cheapest_place(profile, cards, occupied, spoken_for)
        if place is None:
            return chosen
        card, placement = place
        occupied[card.id] |= placement.mask
        chosen.append(Choice.of(demand, card, placement))
    return chosen


def _planned_place(
    mine: list[Planned], cards: Mapping[str, Card], occupied: Mapping[str, int]
) -> tuple[Card, Placement] | None:
    """The next planned place that is still free; places that are gone are dropped."""
    while mine:
        planned = mine.pop(0)
        card = cards[planned.card]
        profile = card.profile(planned.profile)
        for placement in free_placements(profile, occupied[card.id]) if profile else ():
            if placement.start == planned.start:
                return card, placement
    return None


def _cheapest_place(
    name: str, cards: Mapping[str, Card], occupied: Mapping[str, int], spoken_for: Mapping[str, int]
) -> tuple[Card, Placement] | None:
    """The place that costs the larger profiles least, whichever card it is on; the fullest card among equals.

    One that is planned for somebody else is taken only when there is no other.
    """
    for others in (spoken_for, dict.fromkeys(occupied, 0)):
        places = []
        for card in cards.values():
            profile = card.profile(name)
            taken = occupied[card.id] | others[card.id]
            placement = best_placement(profile, card.profiles, taken) if profile else None
            if placement is not None:
                cost = what_it_costs(card.profiles, taken, placement)
                places.append(((cost, -occupied[card.id].bit_count()), card, placement))
        if places:
            _, card, placement = min(places, key=lambda place: place[0])
            return card, placement
    return None


def _planned_mask(card: Card, planned: Planned) -> int:
    profile = card.profile(planned.profile)
    return mask_of(place for place in profile.placements if place.start == planned.start) if profile else 0


def _refuse_card(demand: ContainerDemand, card_id: str, cards: NodeCards, *, slice_gate: bool) -> Refusal | None:
    state = cards.get(card_id)
    if state is None:
        return Refusal(Cause.UNKNOWN_CARD, f"{card_id} is not an accelerator of this node")
    card = state.card
    if not card.serves(demand.family):
        what = (
            "is partitioned" if card.partitioned else "cannot be sliced" if card.whole_capable else "has no partitions"
        )
        return Refusal(Cause.WRONG_POPULATION, f"{card_id} {what}: it serves no {demand.family.value} request")
    if not card.healthy:
        return Refusal(Cause.UNHEALTHY, f"{card_id} is unhealthy")
    if not state.free and (state.mode is not demand.family.mode or demand.family is Family.EXCLUSIVE):
        return Refusal(Cause.HELD, f"{state.describe()} (by {_holders(state)}): {_NEEDS[demand.family]}")
    if demand.family is Family.SHARED and not state.shares_free:
        return Refusal(Cause.NO_UNITS, f"{state.describe()} (by {_holders(state)}): no share is left on it")
    if demand.family is Family.SLICED and slice_gate and not state.slots_free:
        return Refusal(Cause.NO_SLOT, f"{card_id} hosts {state.slices} of {card.slots} slices: no slot is left on it")
    if demand.family is Family.SLICED and slice_gate and demand.units > state.remaining:
        asked, left = percent(demand.units), percent(state.remaining)
        return Refusal(Cause.NO_UNITS, f"{card_id} has {left} of its memory left, the slice needs {asked}")
    return None


_NEEDS = {
    Family.EXCLUSIVE: "a whole accelerator must be free",
    Family.SHARED: "a share needs a free or shared accelerator",
    Family.SLICED: "a slice needs a free or sliced accelerator",
    Family.PARTITIONED: "a partition needs a partitioned accelerator",
}


def _holders(state: CardState) -> str:
    """The Pods on a card, a few by name."""
    pods = sorted({str(holding.pod) for holding in state.holdings})
    shown = ", ".join(pods[:_SHOWN])
    return shown if len(pods) <= _SHOWN else f"{shown} and {len(pods) - _SHOWN} more"


_SHOWN = 3
