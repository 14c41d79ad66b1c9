"""Instance types: each InstanceType's queue, from birth to end, and its status.

Owns the existence, labels and isolation of the same-named ClusterQueue, `InstanceType.status`, and the finalizer that
lets a pool end in order: switched off, queue deleted and gone, only then the type. The queue's groups and its stop
policy belong to the node queue controller; it is created on Hold, by a plain create, so that no later apply of ours
can take the Hold away with it.

A queue that somebody stopped by hand is mirrored into `spec.inactive`, so that the type says what is so and the switch
turns it on again. What tells their stop from ours is the annotation in which node queue notes the policy it last set.

Woken by InstanceTypes, their ClusterQueues, flavors, and by whatever moves the views: Devices, Nodes, Pods.
"""

from collections.abc import Iterable

import structlog

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.flavors import pool_has_flavor
from gpustack_ctl.accel.labels import CONTROLLED
from gpustack_ctl.accel.queues import cluster_queue
from gpustack_ctl.controllers.cpu_requests import CpuRequests, millicores, node_of
from gpustack_ctl.controllers.instance_type_status import CpuView, PoolFacts, status_of
from gpustack_ctl.controllers.node_queue import APPLIED_STOP_POLICY, groups_for, stopped_by_hand
from gpustack_ctl.controllers.pace import Pace
from gpustack_ctl.controllers.pool_views import PoolLedgers
from gpustack_ctl.controllers.pools import PoolSelector, ready, selector_of
from gpustack_ctl.controllers.settings import Settings
from gpustack_ctl.controllers.sources import Sources, labels_changed, spec_changed
from gpustack_ctl.controllers.writes import part_of, settle
from gpustack_ctl.crds.setting import AWARE_CPU_MANUFACTURER, MIXED_ON_NODE
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, again, changes
from gpustack_ctl.kube.errors import AlreadyExists
from gpustack_ctl.kube.events import Events
from gpustack_ctl.kube.objects import Obj, condition, deleting, name_of, uid_of
from gpustack_ctl.kube.resources import CLUSTER_QUEUES, INSTANCE_TYPES
from gpustack_ctl.kube.times import now

log = structlog.get_logger()

MANAGER = "gpustack-instance-type"
PUBLISH_SECONDS = 0.5
"""Changes of a pool's views within this time share one write."""


class InstanceTypeController(Controller):
    """Keys are names of InstanceTypes, which are also the names of their queues."""

    name = "instance-type"

    def __init__(
        self, *, kube: Kube, sources: Sources, settings: Settings, events: Events, table: Manufacturers
    ) -> None:
        self._kube = kube
        self._sources = sources
        self._settings = settings
        self._events = events
        self._table = table
        self._cpu_requests = CpuRequests()
        self._ledgers: dict[str, PoolLedgers] = {}
        self._pace = Pace(PUBLISH_SECONDS)

    def wakes(self) -> Iterable[Wake]:
        self._cpu_requests = CpuRequests()  # the Pods are told anew from the first
        yield Wake(self._sources.pods, self._moved)
        yield changes(self._sources.instance_types)
        yield changes(self._sources.cluster_queues)
        yield changes(self._sources.flavors, key=self._pools_of, when=spec_changed)
        yield changes(self._sources.devices, key=self._pools_with)
        yield changes(self._sources.nodes, key=self._pools_with, when=_room_changed)
        yield self._settings.wake(AWARE_CPU_MANUFACTURER, MIXED_ON_NODE, keys=self._every_pool)

    async def reconcile(self, key: str) -> Result:
        instance_type = self._sources.instance_types.get(key)
        if instance_type is None:
            self._ledgers.pop(key, None)
            self._pace.forget(key)
            return DONE
        if deleting(instance_type):
            return await self._finish(instance_type)
        await self._claim(instance_type)
        queue = await self._queue(instance_type)
        if queue is not None and stopped_by_hand(queue) and not instance_type["spec"].get("inactive"):
            log.info("the queue was stopped by hand: the type is inactive", instance_type=key)
            await self._write_spec(instance_type, {"inactive": True})
        if early := self._pace.early(key):
            return again(early)
        await self._publish(self._sources.instance_types.get(key) or instance_type, queue)
        self._pace.went(key)
        return DONE

    async def _claim(self, instance_type: Obj) -> None:
        """Hold the type by our finalizer, so that its queue can be ended before it."""
        wanted = part_of(instance_type)
        wanted["metadata"]["finalizers"] = [CONTROLLED]
        if CONTROLLED not in (instance_type["metadata"].get("finalizers") or ()):
            applied = await self._kube.apply(INSTANCE_TYPES, wanted, manager=MANAGER)
            self._sources.instance_types.observe(applied)

    async def _queue(self, instance_type: Obj) -> Obj | None:
        """The type's queue: made when missing, its labels and isolation put back when somebody changed them."""
        aware = self._settings.on(AWARE_CPU_MANUFACTURER)
        wanted = cluster_queue(instance_type, aware_cpu=aware)
        queue = self._sources.cluster_queues.get(name_of(instance_type))
        if queue is None:
            return await self._make(wanted)
        if not deleting(queue):
            await settle(self._kube, self._sources.cluster_queues, _upkeep(wanted), manager=MANAGER)
        return self._sources.cluster_queues.get(name_of(instance_type)) or queue

    async def _make(self, queue: Obj) -> Obj | None:
        queue["metadata"].setdefault("annotations", {})[APPLIED_STOP_POLICY] = queue["spec"]["stopPolicy"]
        try:
            made = await self._kube.create(CLUSTER_QUEUES, queue)
        except AlreadyExists:
            return None  # the watch will show it, and that wakes this key
        log.info("made the queue of an instance type", queue=name_of(queue))
        self._sources.cluster_queues.observe(made)
        return made

    async def _publish(self, instance_type: Obj, queue: Obj | None) -> None:
        wanted, facts = part_of(instance_type), self._facts(instance_type)
        wanted["status"] = status_of(instance_type, queue, facts, now=now())
        await settle(self._kube, self._sources.instance_types, wanted, manager=MANAGER, subresource="status")
        known = (condition(instance_type, "TopologyReady") or {}).get("message")
        if facts.refusal and facts.refusal != known:
            self._events.emit(
                instance_type, type="Warning", reason="PlanRefused", message=facts.refusal, action="PlanQueue"
            )

    def _facts(self, instance_type: Obj) -> PoolFacts:
        selector = self._selector(instance_type)
        refusal = groups_for(instance_type, self._sources.flavors.list(), table=self._table).refusal
        if selector.akey is None:
            return PoolFacts(cpu=self._cpu(selector), refusal=refusal)
        members = [devices for devices in self._sources.devices.list() if selector.matches(devices)]
        ledgers = self._ledgers.setdefault(name_of(instance_type), PoolLedgers(selector.akey))
        ledgers.refresh(members)
        return PoolFacts(cpu=self._cpu(selector), views=ledgers.views(), detail=ledgers.catalog(), refusal=refusal)

    def _cpu(self, selector: PoolSelector) -> CpuView:
        nodes = [node for node in self._sources.nodes.list() if selector.matches(node) and ready(node)]
        offered = [millicores((node["status"].get("allocatable") or {}).get("cpu", "0")) for node in nodes]
        left = [max(cpu - self._cpu_requests.on(name_of(node)), 0) for node, cpu in zip(nodes, offered, strict=True)]
        return CpuView(capacity=sum(offered), remaining=sum(left), once_max_request=max(left, default=0))

    async def _finish(self, instance_type: Obj) -> Result:
        """The end of a type: switched off, its queue deleted once, the finalizer released when Kueue has let it go."""
        name = name_of(instance_type)
        if CONTROLLED not in (instance_type["metadata"].get("finalizers") or ()):
            return DONE
        queue = self._sources.cluster_queues.get(name)
        await self._publish(instance_type, queue)
        if queue is None:
            await self._release(instance_type)
        elif not instance_type["spec"].get("inactive"):
            await self._write_spec(instance_type, {"inactive": True})
        elif not deleting(queue):
            await self._kube.delete(CLUSTER_QUEUES, name, uid=uid_of(queue))
        return DONE

    async def _release(self, instance_type: Obj) -> None:
        metadata = instance_type["metadata"]
        kept = [finalizer for finalizer in metadata["finalizers"] if finalizer != CONTROLLED]
        patch = {"metadata": {"finalizers": kept, "resourceVersion": metadata["resourceVersion"]}}
        await self._kube.patch(INSTANCE_TYPES, name_of(instance_type), patch, field_manager=MANAGER)

    async def _write_spec(self, instance_type: Obj, spec: Obj) -> None:
        patch = {"metadata": {"uid": uid_of(instance_type)}, "spec": spec}
        patched = await self._kube.patch(INSTANCE_TYPES, name_of(instance_type), patch, field_manager=MANAGER)
        self._sources.instance_types.observe(patched)

    def _pools_of(self, flavor: Obj) -> list[str]:
        types = self._sources.instance_types.list()
        return [name_of(instance_type) for instance_type in types if pool_has_flavor(instance_type, flavor)]

    def _pools_with(self, obj: Obj | None) -> list[str]:
        """The pools that a Node or Devices belongs to."""
        if obj is None:
            return []
        types = self._sources.instance_types.list()
        return [name_of(instance_type) for instance_type in types if self._selector(instance_type).matches(obj)]

    def _moved(self, old: Obj | None, new: Obj | None) -> list[str]:
        """The pools whose CPU a Pod takes or gives back."""
        self._cpu_requests.changed(old, new)
        if node_of(old) == node_of(new):
            return []
        nodes = map(self._sources.nodes.get, (node_of(old), node_of(new)))
        return [pool for node in nodes for pool in self._pools_with(node)]

    def _every_pool(self) -> list[str]:
        return [name_of(instance_type) for instance_type in self._sources.instance_types.list()]

    def _selector(self, instance_type: Obj) -> PoolSelector:
        return selector_of(instance_type, mixed_on_node=self._settings.on(MIXED_ON_NODE))


def _upkeep(queue: Obj) -> Obj:
    """Of a queue at birth, what stays this controller's: not the Hold and its marks, which are the node queue's."""
    metadata = {key: value for key, value in queue["metadata"].items() if key != "annotations"}
    spec = {key: value for key, value in queue["spec"].items() if key not in ("stopPolicy", "resourceGroups")}
    return {**queue, "metadata": metadata, "spec": spec}


def _room_changed(old: Obj | None, new: Obj | None) -> bool:
    """Whether a node now offers other CPU, or belongs to other pools."""
    if labels_changed(old, new) or old is None or new is None:
        return True
    offers = [((node.get("status") or {}).get("allocatable") or {}).get("cpu") for node in (old, new)]
    return offers[0] != offers[1] or ready(old) != ready(new)
