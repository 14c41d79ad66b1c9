"""From flavors to a queue: what a ClusterQueue covers, and whether it may admit.

Two facts about Kueue shape this file. A queue without resource groups declares no resource, and under IgnoreUndeclared
it then admits everything; so an empty queue is always held. And a queue holds at most 64 flavors; a plan that does not
fit is refused whole, because a part of a pool would look like all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.features import identity, label_count
from gpustack_ctl.accel.flavors import pool_labels
from gpustack_ctl.accel.naming import GENERIC, entrance_name
from gpustack_ctl.accel.units import M, saturating_mul

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]

MOST_FLAVORS = 64


@dataclass(frozen=True, slots=True)
class GroupsPlan:
    """`groups` is the whole `spec.resourceGroups`; none when no flavor is left, or with the `refusal` that says why."""

    groups: tuple[dict[str, Any], ...] = ()
    refusal: str | None = None

    @property
    def empty(self) -> bool:
        """There is nothing to write. A refused plan leaves the groups that a queue has as they are."""
        return not self.groups


@dataclass(frozen=True, slots=True)
class QueueState:
    """All that decides whether a queue may admit."""

    #: The InstanceType is switched off by a person.
    inactive: bool = False
    #: The InstanceType or the queue is being deleted.
    deleting: bool = False
    #: No flavor is left to admit to, or none has come yet.
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
    saved: str | None = None
    #: The queue was born without groups and is held for that alone (mark `topology.gpustack.ai/empty-plan-hold`).
    empty_plan_hold: bool = False


@dataclass(frozen=True, slots=True)
class QueueVerdict:
    """What the queue's `spec.stopPolicy` must be, and what is put aside for later."""

    stop_policy: StopPolicy
    saved: str | None = None
    #: Nothing is reserved and nothing planned: the groups may be emptied, since the queue is stopped by then.
    may_empty_groups: bool = False


def plan_groups(flavors: Iterable[Mapping[str, Any]], *, manufacturer: str | None, table: Manufacturers) -> GroupsPlan:
    """The resource groups of a pool's flavors; `manufacturer` is None for a CPU pool.

    Flavors of few cards come first, so that small requests do not break up large nodes. One that is being deleted is
    left out: Kueue keeps it for as long as a queue names it.
    """
    rows = sorted(_row(flavor) for flavor in flavors if not flavor["metadata"].get("deletionTimestamp"))
    rows = [row for row in rows if row.capacity > 0]
    if len(rows) > MOST_FLAVORS:
        return GroupsPlan(refusal=f"the pool has {len(rows)} flavors, and a queue takes {MOST_FLAVORS}")
    if not rows:
        return GroupsPlan()
    # A CPU flavor counts cores, an accelerated one cards, and credits are what Kueue makes of cards.
    resource, unit = ("cpu", 1) if manufacturer is None else (table.by_key[manufacturer].credits, M)
    quotas = [
        {"name": row.name, "resources": [{"name": resource, "nominalQuota": str(saturating_mul(row.capacity, unit))}]}
        for row in rows
    ]
    return GroupsPlan(({"coveredResources": [resource], "flavors": quotas},))


def stop_policy(state: QueueState) -> QueueVerdict:
    """Whether the queue may admit: the one place where every reason to stop it meets.

    Only an end drains: of the pool, or, where so configured, of its last node. Everything else that stops a queue lets
    what runs run on. A policy put aside while there were no flavors is taken up again with the first that returns; by
    then the InstanceType says whether the queue was, or has since been, switched off.
    """
    if state.deleting:
        return QueueVerdict("HoldAndDrain", state.saved)
    if state.empty_plan:
        return _without_flavors(state)
    if state.accelerated and not state.guarded:
        return QueueVerdict("Hold", state.saved)
    if state.inactive:
        return QueueVerdict("Hold")
    return QueueVerdict("None")


def cluster_queue(instance_type: Mapping[str, Any], *, aware_cpu: bool) -> dict[str, Any]:
    """The ClusterQueue of an InstanceType at birth: isolated, without groups, on Hold with the mark that says why."""
    spec = instance_type["spec"]
    identity = pool_labels(
        gkey=spec.get("generalGroup") or GENERIC,
        akey=spec.get("acceleratorGroup") or None,
        os=spec["os"],
        arch=spec["arch"],
        aware_cpu=aware_cpu,
    )
    return {
        "apiVersion": _KUEUE,
        "kind": "ClusterQueue",
        "metadata": {
            "name": instance_type["metadata"]["name"],
            "labels": {**identity, labels.RESOURCE_TYPE: labels.TYPE_INSTANCE_TYPES},
            "annotations": {labels.EMPTY_PLAN_HOLD: "true"},
        },
        "spec": {
            # Every namespace has an entrance; who may use it is a matter of RBAC and of the LocalQueue.
            "namespaceSelector": {},
            # A large request that waits must not keep small ones from running.
            "queueingStrategy": "BestEffortFIFO",
            # No cohort is named, so nothing is lent, borrowed or reclaimed; within the pool priority counts.
            "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "LowerPriority"},
            # Another flavor is tried before anybody is evicted.
            "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"},
            "stopPolicy": "Hold",
        },
    }


def local_queue(queue_name: str, namespace: str) -> dict[str, Any]:
    """The entrance to a queue in one namespace; the queue's own name, which a label may not hold, is an annotation."""
    return {
        "apiVersion": _KUEUE,
        "kind": "LocalQueue",
        "metadata": {
            "name": entrance_name(queue_name),
            "namespace": namespace,
            "annotations": {labels.QUEUE: queue_name},
        },
        "spec": {"clusterQueue": queue_name},
    }


_KUEUE = "kueue.x-k8s.io/v1beta2"


def _without_flavors(state: QueueState) -> QueueVerdict:
    """The nodes are gone, or have not come yet. The queue is stopped before its groups are emptied, never after."""
    if state.empty_plan_hold:
        return QueueVerdict("Hold", state.saved)
    saved = state.saved or state.current
    if state.reserving:
        return QueueVerdict("HoldAndDrain" if state.drain_when_empty else "Hold", saved)
    return QueueVerdict("Hold", saved, may_empty_groups=state.current != "None")


class _Row(NamedTuple):
    """A flavor in the order in which it is tried."""

    size: int
    name: str
    capacity: int


def _row(flavor: Mapping[str, Any]) -> _Row:
    """Count and capacity, which our flavors carry as labels of the accelerator, or of the CPU where there is none.

    One that cannot be read is zero, and so no quota.
    """
    found = flavor["metadata"].get("labels") or {}
    akey = identity(found, labels.ACCELERATABLE_PREFIX)
    gkey = identity(found, labels.GENERAL_PREFIX) or GENERIC
    label = partial(labels.accelerator, akey) if akey else partial(labels.general, gkey)
    count, capacity = (label_count(found.get(label(attribute))) or 0 for attribute in ("count", "capacity"))
    return _Row(count, flavor["metadata"]["name"], capacity)
