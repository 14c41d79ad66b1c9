"""The verdict of the per-card admission check: place every demand at once, or say what was nearest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpustack_ctl.accel.cards import NodeCards
from gpustack_ctl.accel.placement import Cause, Choice
from gpustack_ctl.accel.plans import PodPlan
from gpustack_ctl.accel.requests import PodDemand

SEARCH_BOUND = 50_000
"""Search nodes after which the exact search gives up and the Workload is held."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods of one PodSet that want the same: ``pods`` of them on ``node``, or anywhere among the nodes given.

    ``akey`` is the model that the PodSet's flavor pins and ``card_count`` the number of such cards per node that it
    pins; ``role`` is the PodSet's name.
    """

    role: str
    pod: PodDemand
    pods: int
    akey: str
    node: str | None = None
    card_count: int | None = None


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """Where one Pod of a role goes."""

    role: str
    node: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A card for every Pod of every demand."""

    pods: tuple[PlacedPod, ...]
    searched: int = 0

    def annotations(self) -> dict[str, str]:
        """The plan annotation of each role; a role whose plan is too long has none."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Miss:
    """No placement exists; or none was found within the bound, which ``bounded`` says."""

    role: str
    node: str | None
    cause: Cause
    message: str
    bounded: bool = False
    searched: int = 0


@dataclass(frozen=True, slots=True)
class Inflight:
    """What a Workload that was told Ready will still take: its demand less the Pods held already.

    ``plan`` is the entries of its plan on that node that no Pod has taken yet, none when it was never planned.
    """

    workload: str
    demand: Demand
    plan: tuple[PodPlan, ...] = ()


def fit(demands: Sequence[Demand], nodes: Mapping[str, NodeCards], *, bound: int = SEARCH_BOUND) -> Plan | Miss:
    """Place every demand at once, or say what was nearest.

    ``nodes`` holds every node whose Node object exists; one that is missing serves nothing. Exact: a Miss that is not
    ``bounded`` means that no placement exists.
    """
    raise NotImplementedError


def occupy(nodes: Mapping[str, NodeCards], inflight: Iterable[Inflight]) -> dict[str, NodeCards]:
    """The nodes once every inflight Workload has taken what it was promised.

    A planned one takes its planned cards; one without a plan, or whose plan no longer holds, goes by the packing order.
    Where not even that fits, as many of its Pods as fit are placed.
    """
    raise NotImplementedError
