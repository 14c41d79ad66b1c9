"""The ledger: who holds which card, rebuilt from the Pods bound to a node.

There is no running total to drift. The account is a pure function of the cards and of the records that the node agent
wrote on the Pods, so the agent, the manager and a test that replays history all reach the same bytes. The agent alone
knows more than the Pods say, for the moment between choosing a card and the record landing: its reservations.

What cannot be read is never free room. A record that is not readable names no card, so every card of the Pod's
manufacturer counts as held until the agent has written it anew; that is reported, as is a Pod that asks for a device
and has none recorded, and a card charged for more than it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gpustack_ctl.accel.cards import Card, CardState, Holding, NodeCards, Occupancy, PodKey, cards_of, state_of
from gpustack_ctl.accel.families import TOKENS, Manufacturers, Mode, ResourceKey
from gpustack_ctl.accel.records import Entry, Record, RecordError, record_of
from gpustack_ctl.accel.units import SHARE_UNITS, M


@dataclass(frozen=True, slots=True)
class Reservation:
    """What the agent promised to a container and may not have recorded yet. It stands in for the container's record."""

    pod: PodKey
    container: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A Pod whose record names no card that can be read."""

    pod: PodKey
    manufacturers: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """A Pod on the node whose containers ask for a device and have none recorded."""

    pod: PodKey
    containers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overcharged:
    """A card that the records charge for more than it has, or in two modes at once."""

    card: str
    charged: int
    reason: str


@dataclass(frozen=True, slots=True)
class Stray:
    """An entry that names a card the node does not have (any more)."""

    pod: PodKey
    container: str
    card: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """The account of one node and what was wrong with its sources. `states` are in canonical order."""

    states: tuple[CardState, ...]
    unreadable: tuple[Unreadable, ...] = ()
    unrecorded: tuple[Unrecorded, ...] = ()
    overcharged: tuple[Overcharged, ...] = ()
    strays: tuple[Stray, ...] = ()

    def on(self, node: str, counts: Mapping[str, int] | None = None) -> NodeCards:
        """The account as the cards of a node, for placement and feasibility."""
        return NodeCards(node, self.states, counts or {})


def rebuild(
    cards: Sequence[Card],
    pods: Iterable[Mapping[str, Any]],
    *,
    table: Manufacturers,
    release_terminated: bool = True,
    reservations: Iterable[Reservation] = (),
) -> Ledger:
    """The account of a node from its cards and the Pods bound to it; independent of the order of the Pods.

    An entry charges until its Pod is gone. With `release_terminated` a Pod in phase Succeeded or Failed stops being
    charged for cards, shares and slices, except for what outlives its containers in hardware: a partition, and a MetaX
    or Cambricon slice, stay charged until the Pod object is gone. Costs time linear in Pods and cards.
    """
    account = _Account(cards)
    promised: dict[PodKey, dict[str, tuple[Entry, ...]]] = {}
    for reservation in reservations:
        promised.setdefault(reservation.pod, {})[reservation.container] = reservation.entries
    for pod in pods:
        key = pod_key(pod)
        finished = is_finished(pod)
        account.take(
            key, pod, table, promised.pop(key, {}), finished=finished, released=finished and release_terminated
        )
    for key, record in promised.items():
        account.charge(key, record, released=False)
    return account.close()


def status_of(ledger: Ledger) -> dict[str, Any]:
    """The `Devices.status` that publishes the ledger; equal ledgers give identical bytes."""
    return {
        "groups": [
            {"id": group, "manufacturer": manufacturer, "accelerators": [_row(state) for state in states]}
            for (manufacturer, group), states in groupby(
                ledger.states, key=lambda state: (state.card.manufacturer, state.card.group)
            )
        ]
    }


@dataclass(frozen=True, slots=True)
class PublishedCard(Occupancy):
    """A card as an agent published it: figures, without the holdings behind them."""

    held: Mapping[str, int]
    left: Mapping[str, int]

    def remaining_profiles(self) -> Mapping[str, int]:
        """Free placements of every profile that the card offers, zeros included."""
        return self.left

    def allocated_profiles(self) -> Mapping[str, int]:
        """Partitions held, by profile."""
        return self.held


def published(devices: Mapping[str, Any]) -> tuple[PublishedCard, ...]:
    """The cards of a `Devices` object with the figures of its status, in canonical order.

    The catalog leads: a card without a row reads as empty, and a profile that a row does not carry reads as zero, so
    that a fresh node has room and a full profile is not mistaken for one that is not offered.
    """
    rows = {
        row["id"]: row
        for group in (devices.get("status") or {}).get("groups") or ()
        for row in group.get("accelerators") or ()
    }
    return tuple(_published(card, rows.get(card.id)) for card in cards_of(devices.get("spec") or {}))


def is_held(pod: Mapping[str, Any], table: Manufacturers) -> bool:
    """Whether the Pod's record names every container that asks for an accelerator."""
    try:
        record = record_of(pod)
    except RecordError:
        return False
    return asking(pod, table).keys() <= record.keys()


def is_finished(pod: Mapping[str, Any]) -> bool:
    """Whether the Pod's containers have ended for good; its object may stay for long."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def asking(pod: Mapping[str, Any], table: Manufacturers) -> dict[str, tuple[ResourceKey, ...]]:
    """The containers of the Pod, init containers too, that make the kubelet call for a device, and by which keys."""
    spec = pod["spec"]
    claims: dict[str, tuple[ResourceKey, ...]] = {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources")
        if resources and (keys := _tokens(resources, table)):
            claims[container["name"]] = keys
    return claims


def pod_key(pod: Mapping[str, Any]) -> PodKey:
    """The key of a Pod object."""
    metadata = pod["metadata"]
    return PodKey(metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))


class _Account:
    """Holdings gathered per card, and everything worth reporting, while the Pods are gone through."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self.cards = cards
        self.holdings: dict[str, list[Holding]] = {card.id: [] for card in cards}
        self.unreadable: list[Unreadable] = []
        self.unrecorded: list[Unrecorded] = []
        self.strays: list[Stray] = []

    def take(
        self,
        pod: PodKey,
        obj: Mapping[str, Any],
        table: Manufacturers,
        promised: Record,
        *,
        finished: bool,
        released: bool,
    ) -> None:
        """Charge one Pod: its record, with the agent's promises in place of what they cover."""
        claims = asking(obj, table)
        try:
            record = record_of(obj)
        except RecordError as fault:
            self.charge(pod, promised, released=released)
            self.hold_unnamed(
                pod, {name: keys for name, keys in claims.items() if name not in promised}, fault, released
            )
            return
        if promised:
            record = {**record, **promised}
        if record:
            self.charge(pod, record, released=released)
        if not finished and not claims.keys() <= record.keys():
            self.unrecorded.append(Unrecorded(pod, tuple(sorted(claims.keys() - record.keys()))))

    def charge(self, pod: PodKey, record: Record, *, released: bool) -> None:
        for container, entries in record.items():
            for entry in entries:
                if released and not _outlives(entry.mode, entry.manufacturer):
                    continue
                held = self.holdings.get(entry.id)
                if held is None:
                    self.strays.append(Stray(pod, container, entry.id))
                    continue
                units = _CHARGES.get(entry.mode, entry.units)
                held.append(Holding(pod, container, entry.mode, units, entry.profile, entry.placements))

    def hold_unnamed(
        self, pod: PodKey, claims: Mapping[str, tuple[ResourceKey, ...]], fault: RecordError, released: bool
    ) -> None:
        """Hold every card that the claims could be on: the record that would tell cannot be read."""
        keys = [key for claim in claims.values() for key in claim]
        if released:
            keys = [key for key in keys if key.family and _outlives(key.family.mode, key.manufacturer.key)]
        if not keys:
            return
        manufacturers = tuple(sorted({key.manufacturer.key for key in keys}))
        self.unreadable.append(Unreadable(pod, manufacturers, str(fault)))
        for card in self.cards:
            if card.manufacturer in manufacturers:
                mode = Mode.PARTITIONED if card.partitioned else Mode.EXCLUSIVE
                self.holdings[card.id].append(Holding(pod, "", mode, M, opaque=True))

    def close(self) -> Ledger:
        for held in self.holdings.values():
            held.sort()
        states = tuple(state_of(card, self.holdings[card.id]) for card in self.cards)
        return Ledger(
            states,
            tuple(sorted(self.unreadable, key=lambda report: report.pod)),
            tuple(sorted(self.unrecorded, key=lambda report: report.pod)),
            tuple(Overcharged(state.card.id, state.charged, reason) for state in states for reason in _excesses(state)),
            tuple(sorted(self.strays, key=lambda report: (report.pod, report.container, report.card))),
        )


#: What a card is charged whatever its record says; slices and partitions are charged what was recorded.
_CHARGES = {Mode.EXCLUSIVE: M, Mode.SHARED: SHARE_UNITS}

#: Their slices are instances inside the driver, made and destroyed with the Pod rather than with its containers.
_SLICES_IN_DRIVER = frozenset({"cambricon", "metax"})


def _outlives(mode: Mode, manufacturer: str) -> bool:
    """Whether a claim stays on the card after its containers have ended."""
    return mode is Mode.PARTITIONED or (mode is Mode.SLICED and manufacturer in _SLICES_IN_DRIVER)


def _tokens(resources: Mapping[str, Any], table: Manufacturers) -> tuple[ResourceKey, ...]:
    """The device plugin keys asked for in limits or requests; an extended resource may stand in either."""
    found: dict[str, ResourceKey] = {}
    for amounts in (resources.get("limits"), resources.get("requests")):
        for key, value in (amounts or {}).items():
            # Most keys are cpu and memory; every accelerator's has a slash.
            if "/" in key and (known := table.read(key)) and known.kind in _TOKEN_KINDS and value not in _ZERO:
                found[key] = known
    return tuple(found.values())


_TOKEN_KINDS = frozenset(TOKENS.values())
_ZERO = ("0", 0)


def _excesses(state: CardState) -> list[str]:
    """What is impossible about a card's holdings, if anything. An opaque one is no claim of its own."""
    if state.charged <= M and len(state.holdings) < 2:
        return []
    named = [holding for holding in state.holdings if not holding.opaque]
    reasons = []
    modes = sorted({holding.mode for holding in named})
    if len(modes) > 1:
        reasons.append("held in several modes: " + ", ".join(mode.name.lower() for mode in modes))
    charged = sum(holding.units for holding in named)
    if charged > M:
        reasons.append(f"charged {charged} of {M} units")
    if state.card.sliceable and state.slices > state.card.slots:
        reasons.append(f"{state.slices} slices on {state.card.slots} slots")
    lengths = sum(placement.length for holding in named for placement in holding.placements)
    if state.card.partitioned and lengths > state.occupied.bit_count():
        reasons.append("partitions overlap")
    return reasons


def _row(state: CardState) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": state.card.id,
        "index": state.card.index,
        "mode": int(state.mode),
        "allocated": state.allocated,
        "remaining": state.remaining,
        "allocatedSlices": state.slices,
    }
    if state.card.partitioned:
        held = state.allocated_profiles()
        row["allocatedProfiles"] = [{"name": name, "count": held[name]} for name in sorted(held)]
        row["remainingProfiles"] = [
            {"name": name, "count": count} for name, count in sorted(state.remaining_profiles().items())
        ]
    return row


def _published(card: Card, row: Mapping[str, Any] | None) -> PublishedCard:
    ceiling = {profile.name: profile.count for profile in card.profiles}
    if row is None:
        return PublishedCard(card, Mode.NONE, 0, 0, {}, ceiling)
    mode, held, left = Mode(row["mode"]), _counts(row.get("allocatedProfiles")), _counts(row.get("remainingProfiles"))
    # A card with nothing held and nothing left says nothing: its row is older than its partitions.
    left = {name: left.get(name, 0) for name in ceiling} if left or mode is not Mode.NONE else ceiling
    return PublishedCard(card, mode, row["allocated"], row.get("allocatedSlices") or 0, held, left)


def _counts(rows: Iterable[Mapping[str, Any]] | None) -> dict[str, int]:
    return {row["name"]: row["count"] for row in rows or ()}
