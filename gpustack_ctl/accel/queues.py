"""From flavors to a queue: what a ClusterQueue covers, and whether it may admit.

Two facts about Kueue shape this file. A queue without resource groups declares no resource, and under IgnoreUndeclared
it then admits everything; so an empty queue is always held. And a queue holds at most 64 flavors; a plan that does not
fit is refused whole, because a part of a pool would look like all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpustack_ctl.accel.families import Manufacturers

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]

MOST_FLAVORS = 64


@dataclass(frozen=True, slots=True)
class GroupsPlan:
    """`groups` is the whole `spec.resourceGroups`; empty with a `refusal` when the plan cannot be whole."""

    groups: tuple[dict[str, Any], ...] = ()
    refusal: str | None = None

    @property
    def empty(self) -> bool:
        return not self.groups


@dataclass(frozen=True, slots=True)
class QueueState:
    """All that decides whether a queue may admit."""

    #: The InstanceType is switched off by a person.
    inactive: bool = False
    #: The InstanceType or the queue is being deleted.
    deleting: bool = False
    #: No flavor is left, or the plan was refused.
    empty_plan: bool = False
    #: An accelerated queue: its AdmissionCheck must guard it.
    accelerated: bool = True
    #: The AdmissionCheck is Active and the queue refers to it.
    guarded: bool = False
    #: The queue still holds reservations.
    reserving: bool = False
    #: The setting `instance-type-drain-when-no-flavors`.
    drain_when_empty: bool = True
    #: The queue's present policy.
    current: StopPolicy = "None"
    #: The policy put aside while the queue had no flavors (annotation `schedule.gpustack.ai/saved-stop-policy`).
    saved: StopPolicy | None = None
    #: The queue was born without groups and is held for that alone (mark `topology.gpustack.ai/empty-plan-hold`).
    empty_plan_hold: bool = False


@dataclass(frozen=True, slots=True)
class QueueVerdict:
    """What the queue's `spec.stopPolicy` must be, and what is put aside for later."""

    stop_policy: StopPolicy
    saved: StopPolicy | None = None
    #: Reservations are zero and the plan is empty: the groups may be emptied.
    may_empty_groups: bool = False


def plan_groups(flavors: Iterable[Mapping[str, Any]], *, manufacturer: str | None, table: Manufacturers) -> GroupsPlan:
    """The resource groups of a pool's flavors; `manufacturer` is None for a CPU pool. Flavors being deleted are left out."""
    raise NotImplementedError


def stop_policy(state: QueueState) -> QueueVerdict:
    """Whether the queue may admit: the one place where every reason to stop it meets."""
    raise NotImplementedError


def cluster_queue(instance_type: Mapping[str, Any], *, aware_cpu: bool, table: Manufacturers) -> dict[str, Any]:
    """The ClusterQueue of an InstanceType at birth: isolated, without groups, on Hold with the mark that says why."""
    raise NotImplementedError


def local_queue(queue_name: str, namespace: str) -> dict[str, Any]:
    """The entrance to a queue in one namespace."""
    raise NotImplementedError
