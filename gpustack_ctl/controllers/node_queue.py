"""Node queues: what each ClusterQueue covers, whether gate 3 guards it, and whether it may admit.

Owns `spec.resourceGroups`, the reference to our AdmissionCheck, and alone `spec.stopPolicy`. All three are decided from
what was read and written in one request that carries the resourceVersion: groups that arrive before the check, or a
Hold that goes before the groups are there, would let work past the gates. That is why it is a merge patch and not an
apply, which cannot be refused for being stale.

The policy last set is noted on the queue. A policy that differs from the note was set by a person; it is left to the
instance type controller, which switches the type off accordingly, and only then does this one go on.

Woken by ClusterQueues, ResourceFlavors, the AdmissionCheck, InstanceTypes and settings.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.flavors import pool_has_flavor
from gpustack_ctl.accel.labels import (
    ADMISSION_CHECK,
    EMPTY_PLAN_HOLD,
    RESOURCE_TYPE,
    SAVED_STOP_POLICY,
    TYPE_INSTANCE_TYPES,
)
from gpustack_ctl.accel.queues import GroupsPlan, QueueState, StopPolicy, plan_groups, stop_policy
from gpustack_ctl.accel.units import QuantityError, quantity
from gpustack_ctl.controllers.settings import Settings
from gpustack_ctl.controllers.sources import Sources, spec_changed
from gpustack_ctl.crds.setting import DRAIN_WHEN_NO_FLAVORS
from gpustack_ctl.kube.apply import subset_equal
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, changes
from gpustack_ctl.kube.objects import Obj, annotations_of, deleting, is_true, labels_of, name_of
from gpustack_ctl.kube.resources import CLUSTER_QUEUES

log = structlog.get_logger()

MANAGER = "gpustack-node-queue"
APPLIED_STOP_POLICY = "schedule.gpustack.ai/applied-stop-policy"
_POLICIES: Mapping[str | None, StopPolicy] = {"None": "None", "Hold": "Hold", "HoldAndDrain": "HoldAndDrain"}


class NodeQueue(Controller):
    """Keys are names of ClusterQueues."""

    name = "node-queue"

    def __init__(self, *, kube: Kube, sources: Sources, settings: Settings, table: Manufacturers) -> None:
        self._kube = kube
        self._sources = sources
        self._settings = settings
        self._table = table

    def wakes(self) -> Iterable[Wake]:
        yield changes(self._sources.cluster_queues)
        yield changes(self._sources.instance_types, when=spec_changed)
        yield changes(self._sources.flavors, key=self._queues_with, when=spec_changed)
        yield changes(self._sources.checks, key=self._every_queue)
        yield self._settings.wake(DRAIN_WHEN_NO_FLAVORS, keys=self._every_queue)

    async def reconcile(self, key: str) -> Result:
        queue = self._sources.cluster_queues.get(key)
        if queue is None or labels_of(queue).get(RESOURCE_TYPE) != TYPE_INSTANCE_TYPES:
            return DONE
        instance_type = self._sources.instance_types.get(key)
        if instance_type is not None and stopped_by_hand(queue) and not instance_type["spec"].get("inactive"):
            return DONE  # the instance type is switched off first, and that wakes this key
        patch = self._patch(queue, instance_type)
        if not patch:
            return DONE
        log.info("updating the queue", queue=key, stop_policy=patch["spec"]["stopPolicy"])
        patch["metadata"]["resourceVersion"] = queue["metadata"]["resourceVersion"]
        patched = await self._kube.patch(CLUSTER_QUEUES, key, patch, field_manager=MANAGER)
        self._sources.cluster_queues.observe(patched)
        return DONE

    def _patch(self, queue: Obj, instance_type: Obj | None) -> dict[str, Any]:
        """The merge patch that makes the queue what it should be; empty when it is."""
        plan = groups_for(instance_type, self._sources.flavors.list(), table=self._table)
        state = self._state(queue, instance_type, plan)
        verdict = stop_policy(state)
        live = queue["spec"].get("resourceGroups") or []
        groups = plan.groups if not plan.empty or verdict.may_empty_groups else live
        annotations = {
            APPLIED_STOP_POLICY: verdict.stop_policy,
            SAVED_STOP_POLICY: verdict.saved,
            EMPTY_PLAN_HOLD: "true" if verdict.stop_policy != "None" and not groups else None,
        }
        patch: dict[str, Any] = {
            "metadata": {"annotations": annotations},
            "spec": {"stopPolicy": verdict.stop_policy, **(_reference(queue) if state.guarded else {})},
        }
        if subset_equal(patch, queue) and same_groups(groups, live):
            return {}
        patch["spec"]["resourceGroups"] = list(groups)
        return patch

    def _state(self, queue: Obj, instance_type: Obj | None, plan: GroupsPlan) -> QueueState:
        """All that decides whether the queue may admit. It counts as guarded once the check is Active: the reference to
        it is written together with whatever follows from that."""
        spec = instance_type["spec"] if instance_type is not None else {}
        accelerated = bool(spec.get("acceleratorGroup"))
        return QueueState(
            inactive=bool(spec.get("inactive")),
            deleting=instance_type is None or deleting(instance_type) or deleting(queue),
            # A plan that was refused takes nothing from a queue that works by an earlier one.
            empty_plan=plan.empty and (plan.refusal is None or not queue["spec"].get("resourceGroups")),
            accelerated=accelerated,
            guarded=accelerated and is_true(self._sources.checks.get(ADMISSION_CHECK) or {}, "Active"),
            reserving=queue.get("status", {}).get("reservingWorkloads", 0) > 0,
            drain_when_empty=self._settings.on(DRAIN_WHEN_NO_FLAVORS),
            current=policy_of(queue),
            saved=_saved(queue),
            empty_plan_hold=EMPTY_PLAN_HOLD in annotations_of(queue),
        )

    def _queues_with(self, flavor: Obj) -> list[str]:
        types = self._sources.instance_types.list()
        return [name_of(instance_type) for instance_type in types if pool_has_flavor(instance_type, flavor)]

    def _every_queue(self, _: Obj | None = None) -> list[str]:
        return [name_of(queue) for queue in self._sources.cluster_queues.list()]


def policy_of(queue: Obj) -> StopPolicy:
    """The queue's stop policy; Kueue reads an absent one as None."""
    return _POLICIES.get(queue["spec"].get("stopPolicy"), "None")


def stopped_by_hand(queue: Obj) -> bool:
    """Whether somebody other than this controller stopped the queue."""
    policy = policy_of(queue)
    return policy != "None" and policy != annotations_of(queue).get(APPLIED_STOP_POLICY, policy)


def groups_for(instance_type: Obj | None, flavors: Iterable[Obj], *, table: Manufacturers) -> GroupsPlan:
    """The resource groups that a pool should have, of all flavors; none without its InstanceType."""
    if instance_type is None:
        return GroupsPlan()
    akey = instance_type["spec"].get("acceleratorGroup") or ""
    manufacturer = table.of_akey(akey)
    if akey and manufacturer is None:
        return GroupsPlan(refusal=f"no manufacturer is known for the accelerator {akey}")
    members = [flavor for flavor in flavors if pool_has_flavor(instance_type, flavor)]
    return plan_groups(members, manufacturer=manufacturer.key if manufacturer else None, table=table)


def same_groups(wanted: Sequence[Mapping[str, Any]], live: Sequence[Mapping[str, Any]]) -> bool:
    """Whether two lists of resource groups say the same. Kueue's webhook rewrites quantities (`6400000` as `6400k`)."""
    return [_by_value(group) for group in wanted] == [_by_value(group) for group in live]


def _saved(queue: Obj) -> StopPolicy | None:
    return _POLICIES.get(annotations_of(queue).get(SAVED_STOP_POLICY))


def _by_value(group: Mapping[str, Any]) -> Any:
    return (
        tuple(group["coveredResources"]),
        tuple(
            (flavor["name"], tuple((quota["name"], _amount(quota["nominalQuota"])) for quota in flavor["resources"]))
            for flavor in group["flavors"]
        ),
    )


def _amount(value: object) -> object:
    try:
        return quantity(value)
    except QuantityError:
        return value  # a hand-written fraction: not what we wrote, so never equal


def _reference(queue: Obj) -> dict[str, Any]:
    """The queue's AdmissionChecks with ours among them; those that an administrator added stay."""
    checks = (queue["spec"].get("admissionChecksStrategy") or {}).get("admissionChecks") or []
    if all(check.get("name") != ADMISSION_CHECK for check in checks):
        checks = [*checks, {"name": ADMISSION_CHECK}]
    return {"admissionChecksStrategy": {"admissionChecks": checks}}
