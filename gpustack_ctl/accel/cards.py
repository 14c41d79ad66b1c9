"""A card, what is held on it, and a node's cards together.

`Card` is capability: what the detector found, unchanged as Pods come and go. `Holding` is one container's claim on
one card. `CardState` is a card with its holdings, and answers every question about room; it is immutable, so a
verdict may try a thousand placements and nobody else sees them. `NodeCards` is the cards of one node in the one
order that everything printed, packed or published follows: manufacturer, then model by its first index, then index.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpustack_ctl.accel.families import Family, Mode
from gpustack_ctl.accel.geometry import Placement, Profile, free_count, free_placements, mask_of
from gpustack_ctl.accel.units import PERCENT_UNITS, SHARE_UNITS, SHARES, M


class PodKey(NamedTuple):
    """Which Pod: the name for people, the UID because a name comes back."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Card:
    """One physical accelerator as detected. `memory_mib` is its VRAM, `slots` how many slices it may host."""

    id: str
    index: int
    group: str
    manufacturer: str
    memory_mib: int = 0
    numa: int | None = None
    healthy: bool = True
    slots: int = 0
    cores_overcommit: bool = False
    partition_count: int = 0
    profiles: tuple[Profile, ...] = ()

    @property
    def akey(self) -> str:
        """The accelerator key, the card's model: `nvidia-a100-sxm4-80gb`."""
        return f"{self.manufacturer}-{self.group}"

    @property
    def partitioned(self) -> bool:
        """Whether the hardware is cut into partitions; such a card is in no other population."""
        return self.partition_count > 0

    @property
    def sliceable(self) -> bool:
        """Whether the card can host logical slices."""
        return self.slots > 0 and not self.partitioned

    @property
    def whole_capable(self) -> bool:
        """Whether the card can be given whole, or by shares."""
        return not self.partitioned

    def serves(self, family: Family) -> bool:
        """Whether the card's population serves the family at all."""
        if family is Family.PARTITIONED:
            return self.partitioned
        return self.sliceable if family is Family.SLICED else self.whole_capable

    def profile(self, name: str) -> Profile | None:
        """The profile of that published name, if the card offers it."""
        return next((profile for profile in self.profiles if profile.name == name), None)


class Holding(NamedTuple):
    """One container's claim on one card: its units and, for a partition, the profile and its intervals.

    `opaque` marks a claim inferred from a record nobody could read: it takes the whole card and overcharges nobody.
    """

    pod: PodKey
    container: str
    mode: Mode
    units: int
    profile: str = ""
    placements: tuple[Placement, ...] = ()
    opaque: bool = False


@dataclass(frozen=True, slots=True)
class Occupancy(ABC):
    """How far a card is taken, in figures: what views and capacities are made of.

    There are two sources, the holdings themselves (`CardState`) and the figures that an agent published.
    """

    card: Card
    mode: Mode
    charged: int
    slices: int

    @abstractmethod
    def remaining_profiles(self) -> Mapping[str, int]:
        """Free placements of every profile that the card offers, zeros included."""

    @abstractmethod
    def allocated_profiles(self) -> Mapping[str, int]:
        """Partitions held, by profile."""

    @property
    def allocated(self) -> int:
        """Units taken, never more than the card has."""
        return min(self.charged, M)

    @property
    def remaining(self) -> int:
        """Units left, never below zero."""
        return M - self.charged if self.charged < M else 0

    @property
    def free(self) -> bool:
        """Whether nothing at all is held."""
        return self.mode is Mode.NONE

    @property
    def slots_free(self) -> int:
        """Slice slots left."""
        return max(self.card.slots - self.slices, 0)

    @property
    def shares_free(self) -> int:
        """Shares that the card can still grant: none while another mode holds it."""
        return self.remaining // SHARE_UNITS if self.mode in _OPEN_TO_SHARES else 0

    @property
    def percent_free(self) -> int:
        """Whole percents of VRAM that a slice could still get: none without a slot or in another mode."""
        if self.slices >= self.card.slots or self.mode not in _OPEN_TO_SLICES:
            return 0
        return self.remaining // PERCENT_UNITS

    def fits_slice(self, units: int) -> bool:
        """Whether one more slice of that many units has its units and its slot."""
        return self.slices < self.card.slots and self.mode in _OPEN_TO_SLICES and units <= self.remaining


_OPEN_TO_SHARES = (Mode.NONE, Mode.SHARED)
_OPEN_TO_SLICES = (Mode.NONE, Mode.SLICED)


@dataclass(frozen=True, slots=True)
class CardState(Occupancy):
    """A card with its holdings. Build it with `state_of`, which works the figures out once."""

    holdings: tuple[Holding, ...]
    occupied: int

    def free_placements(self, profile: str) -> tuple[Placement, ...]:
        """The profile's legal placements that overlap nothing occupied."""
        known = self.card.profile(profile)
        return free_placements(known, self.occupied) if known else ()

    def remaining_profiles(self) -> dict[str, int]:
        """Free placements of every profile that the card offers, zeros included."""
        return {profile.name: free_count(profile, self.occupied) for profile in self.card.profiles}

    def allocated_profiles(self) -> dict[str, int]:
        """Partitions held, by profile."""
        counts: dict[str, int] = {}
        for holding in self.holdings:
            if holding.profile:
                counts[holding.profile] = counts.get(holding.profile, 0) + 1
        return counts

    def with_holding(self, holding: Holding) -> CardState:
        """The state once the holding is added."""
        return state_of(self.card, (*self.holdings, holding))

    def describe(self) -> str:
        """The card's occupation for a message: `GPU-2 shared 3/10`."""
        return f"{self.card.id} {_occupation(self)}"


def state_of(card: Card, holdings: Sequence[Holding] = ()) -> CardState:
    """A card's state from its holdings. Where modes conflict the strictest wins: exclusive, shared, then sliced."""
    charged = slices = occupied = 0
    mode = Mode.NONE
    for holding in holdings:
        charged += holding.units
        slices += holding.mode is Mode.SLICED
        if card.partitioned:
            occupied |= _slices_held(card, holding)
        if mode is Mode.NONE or holding.mode < mode:
            mode = holding.mode
    return CardState(card, mode, charged, slices, tuple(holdings), occupied)


@dataclass(frozen=True, slots=True)
class NodeCards:
    """The cards of one node, in canonical order. No cards at all means that no ledger has been published yet.

    `counts` is the node's own `acceleratable.feature.gpustack.ai/<aKey>.count` labels, read as integers; a flavor
    that pins a count is served only by nodes whose label says the same.
    """

    node: str
    states: tuple[CardState, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    _position: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_position", {state.card.id: at for at, state in enumerate(self.states)})

    def get(self, card_id: str) -> CardState | None:
        """The state of the card of that id."""
        at = self._position.get(card_id)
        return None if at is None else self.states[at]

    def of(self, akey: str) -> tuple[CardState, ...]:
        """The states of one model's cards."""
        return tuple(state for state in self.states if state.card.akey == akey)

    def with_holding(self, card_id: str, holding: Holding) -> NodeCards:
        """The node once the holding is on that card; unchanged when it has no such card."""
        at = self._position.get(card_id)
        if at is None:
            return self
        changed = self.states[at].with_holding(holding)
        return NodeCards(self.node, (*self.states[:at], changed, *self.states[at + 1 :]), self.counts)

    def without(self, pod_uid: str, container: str | None = None) -> NodeCards:
        """The node as if that container, or that whole Pod, held nothing: a retry is not charged for itself."""

        def others(holding: Holding) -> bool:
            return holding.pod.uid != pod_uid or container not in (None, holding.container)

        kept = tuple(state_of(state.card, tuple(filter(others, state.holdings))) for state in self.states)
        return NodeCards(self.node, kept, self.counts)


def cards_of(spec: Mapping[str, Any]) -> tuple[Card, ...]:
    """The cards that a `Devices.spec` describes, in canonical order."""
    return canonical(
        _card(group, accelerator)
        for group in spec.get("groups") or ()
        for accelerator in group.get("accelerators") or ()
    )


def canonical(cards: Iterable[Card]) -> tuple[Card, ...]:
    """Cards by manufacturer, then model by its first index, then index."""
    cards = tuple(cards)
    first: dict[str, int] = {}
    for card in cards:
        first[card.akey] = min(card.index, first.get(card.akey, card.index))
    return tuple(sorted(cards, key=lambda card: (card.manufacturer, first[card.akey], card.group, card.index, card.id)))


def _card(group: Mapping[str, Any], accelerator: Mapping[str, Any]) -> Card:
    status = accelerator.get("status") or {}
    logical = status.get("logicalSliced") or {}
    physical = status.get("physicalSliced") or {}
    return Card(
        id=accelerator["id"],
        index=accelerator["index"],
        group=group["id"],
        manufacturer=group["manufacturer"],
        memory_mib=group.get("memory") or 0,
        numa=_first_number((accelerator.get("topology") or {}).get("numaAffinity")),
        healthy=not status.get("unhealthy"),
        slots=logical.get("count") or 0,
        cores_overcommit=bool(logical.get("coresPercentageOvercommit")),
        partition_count=physical.get("count") or 0,
        profiles=tuple(_profile(profile) for profile in physical.get("profiles") or ()),
    )


def _profile(profile: Mapping[str, Any]) -> Profile:
    placements = tuple(Placement(place["start"], place["length"]) for place in profile.get("placements") or ())
    return Profile(
        name=profile["name"],
        memory_mib=profile.get("memoryMib") or 0,
        compute_slices=profile.get("computeSlices") or 0,
        memory_slices=profile.get("memorySlices") or 0,
        count=profile.get("count") or len(placements),
        placements=placements,
    )


def _first_number(numbers: object) -> int | None:
    """The first of a list such as `0-1`; a card close to several NUMA nodes is counted with the first of them."""
    if numbers is None:
        return None
    digits = str(numbers).replace(",", "-").partition("-")[0]
    return int(digits) if digits.isdecimal() else None


def _slices_held(card: Card, holding: Holding) -> int:
    """The memory slices that a holding occupies; all of them when it names no interval."""
    if holding.placements:
        return mask_of(holding.placements)
    return mask_of(placement for profile in card.profiles for placement in profile.placements)


def _occupation(state: CardState) -> str:
    if not state.card.healthy:
        return "unhealthy"
    match state.mode:
        case Mode.NONE:
            return "free"
        case Mode.EXCLUSIVE:
            return "held whole"
        case Mode.SHARED:
            return f"shared {-(-state.allocated // SHARE_UNITS)}/{SHARES}"
        case Mode.SLICED:
            full = "" if state.slots_free else f", all {state.card.slots} slots"
            return f"sliced {-(-state.allocated // PERCENT_UNITS)}%{full}"
        case Mode.PARTITIONED:
            held = sorted(state.allocated_profiles().items())
            return "partitioned " + " ".join(f"{count}×{name}" for name, count in held)
