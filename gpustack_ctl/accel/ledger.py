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
from typing import Any

from gpustack_ctl.accel.cards import Card, CardState, NodeCards, PodKey
from gpustack_ctl.accel.families import Manufacturers, Mode
from gpustack_ctl.accel.geometry import Placement

ALLOCATED = "device.gpustack.ai/accelerator.allocated"
"""The Pod annotation that holds the allocation record."""


class RecordError(ValueError):
    """An allocation record that cannot be read; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One card in one container's record."""

    group: str
    manufacturer: str
    id: str
    index: int
    mode: Mode
    units: int
    profile: str = ""
    placements: tuple[Placement, ...] = ()


Record = Mapping[str, tuple[Entry, ...]]
"""What a Pod holds: entries by container name."""


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
    """The account of one node and what was wrong with its sources. ``states`` are in canonical order."""

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

    An entry charges until its Pod is gone. With ``release_terminated`` a Pod in phase Succeeded or Failed stops being
    charged for cards, shares and slices, except for what outlives its containers in hardware: a partition, and a MetaX
    or Cambricon slice, stay charged until the Pod object is gone.
    """
    raise NotImplementedError


def status_of(ledger: Ledger) -> dict[str, Any]:
    """The ``Devices.status`` that publishes the ledger; equal ledgers give identical bytes."""
    raise NotImplementedError


def parse_record(text: str) -> Record:
    """Read an allocation record; raises RecordError."""
    raise NotImplementedError


def format_record(record: Record) -> str:
    """Write an allocation record: compact JSON, containers and cards in a fixed order."""
    raise NotImplementedError


def asking(pod: Mapping[str, Any], table: Manufacturers) -> dict[str, str]:
    """Containers of the Pod (init containers too) that ask for an accelerator, with the manufacturer they ask of."""
    raise NotImplementedError


def is_held(pod: Mapping[str, Any], table: Manufacturers) -> bool:
    """Whether the Pod's record names every container that asks for an accelerator."""
    raise NotImplementedError


def pod_key(pod: Mapping[str, Any]) -> PodKey:
    """The key of a Pod object."""
    raise NotImplementedError
