"""A scenario: a described fleet, what is asked of it, and what happens to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpustack_ctl.accel.cards import Card, Holding
from gpustack_ctl.accel.families import Family


@dataclass(frozen=True, slots=True)
class Held:
    """One claim on a card: the holding as the ledger has it, and the compute percentage, which only nodes count."""

    position: int
    holding: Holding
    cores: int = 0


@dataclass(frozen=True, slots=True)
class NodesEntry:
    """Equal nodes: their names, the cards of each and what is held on each."""

    names: tuple[str, ...]
    cards: tuple[Card, ...]
    holdings: tuple[Held, ...] = ()


@dataclass(frozen=True, slots=True)
class PodSetEntry:
    """A PodSet: `pod_spec` is the template as its author would write it, before any webhook."""

    name: str
    count: int
    pod_spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WorkloadEntry:
    """A Workload; without `duration` it runs to the end, with `node` it is judged there and nowhere else."""

    name: str
    at: float
    duration: float | None
    priority: int
    pod_sets: tuple[PodSetEntry, ...]
    pool: str
    node: str | None = None


Weights = tuple[tuple[Any, float], ...]
"""What may be drawn, and how likely."""


@dataclass(frozen=True, slots=True)
class RandomEntry:
    """Workloads to draw: `rate` arrivals per second, sizes by family."""

    seed: int
    requests: int
    rate: float
    mean_duration: float
    mix: Weights
    sizes: Mapping[Family, Weights]
    pod_sets: Weights
    pods: Weights
    pool: str


@dataclass(frozen=True, slots=True)
class EventEntry:
    """Something that happens: to the Workload, the node, or the node's card of that position."""

    at: float
    what: Literal["release", "unhealthy", "healthy", "gone"]
    name: str
    card: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """The whole file, understood."""

    nodes: tuple[NodesEntry, ...]
    workloads: tuple[WorkloadEntry, ...] = ()
    random: RandomEntry | None = None
    events: tuple[EventEntry, ...] = ()


def models(nodes: Sequence[NodesEntry]) -> list[str]:
    """The accelerator keys of the fleet, in order of appearance: its pools."""
    return list(dict.fromkeys(card.akey for entry in nodes for card in entry.cards))
