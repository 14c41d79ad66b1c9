"""Node flavors: the ResourceFlavors that the managed nodes call for, and the InstanceTypes derived from them.

Which nodes are alike is a question about all of them, so there is one key and one plan; a burst of nodes is planned
once. Owns every ResourceFlavor marked `resource.gpustack.ai/type: nodes`: made as planned, deleted when for a while no
node is left that it selects (Kueue keeps it until no queue refers to it). Derived InstanceTypes are only created: from
then on their spec is an administrator's, and one that was deleted is written anew while its nodes are there.

The while matters. A label that somebody took off and node management puts back, or a node that registers anew, is gone
for a moment only; but a pool that loses its last flavor is drained, and the work that was evicted does not come back.

Woken by Nodes that change labels, Devices that change spec, flavors and types that are edited or deleted, and settings.
"""

from collections.abc import Iterable
from time import monotonic

import structlog

from gpustack_ctl.accel.features import NodeFacts, node_facts
from gpustack_ctl.accel.flavors import FlavorPlan, FlavorSettings, plan_flavors
from gpustack_ctl.accel.labels import RESOURCE_TYPE, TYPE_NODES
from gpustack_ctl.controllers.pace import Pace
from gpustack_ctl.controllers.settings import Settings
from gpustack_ctl.controllers.sources import spec_changed
from gpustack_ctl.controllers.writes import settle
from gpustack_ctl.crds.setting import AWARE_CPU_MANUFACTURER, DERIVED_FROM_NODE, MIXED_ON_NODE
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, again, changes
from gpustack_ctl.kube.errors import AlreadyExists
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, annotations_of, deleting, labels_of, name_of, uid_of
from gpustack_ctl.kube.resources import INSTANCE_TYPES, RESOURCE_FLAVORS

log = structlog.get_logger()

MANAGER = "gpustack-node-flavor"
ALL_NODES = "nodes"
PLAN_SECONDS = 0.5
"""Changes of nodes within this time share one plan."""
GRACE_SECONDS = 3.0
"""How long a flavor outlives its last node."""


class NodeFlavor(Controller):
    """The only key is `ALL_NODES`."""

    name = "node-flavor"

    def __init__(
        self,
        *,
        kube: Kube,
        nodes: Informer,
        devices: Informer,
        flavors: Informer,
        instance_types: Informer,
        settings: Settings,
    ) -> None:
        self._kube = kube
        self._nodes = nodes
        self._devices = devices
        self._flavors = flavors
        self._instance_types = instance_types
        self._settings = settings
        self._pace = Pace(PLAN_SECONDS)
        self._known: dict[str, tuple[object, NodeFacts | None]] = {}
        self._without_nodes: dict[str, float] = {}

    def wakes(self) -> Iterable[Wake]:
        yield changes(self._nodes, key=_all_nodes, when=spec_changed)
        yield changes(self._devices, key=_all_nodes, when=spec_changed)
        yield changes(self._flavors, key=_all_nodes, when=spec_changed)
        yield changes(self._instance_types, key=_all_nodes, when=lambda _, new: new is None)
        yield self._settings.wake(MIXED_ON_NODE, AWARE_CPU_MANUFACTURER, DERIVED_FROM_NODE, keys=lambda: (ALL_NODES,))

    async def reconcile(self, key: str) -> Result:
        if early := self._pace.early(key):
            return again(early)
        plan = self._plan()
        left = await self._end_flavors(plan)
        for flavor in plan.flavors.values():
            if not _selects_otherwise(self._flavors.get(name_of(flavor)), flavor):
                await settle(self._kube, self._flavors, flavor, manager=MANAGER)
        if self._settings.on(DERIVED_FROM_NODE):
            for instance_type in plan.instance_types.values():
                await self._derive(instance_type)
        self._pace.went(key)
        return DONE if left is None else again(left)

    def _plan(self) -> FlavorPlan:
        settings = FlavorSettings(
            mixed_on_node=self._settings.on(MIXED_ON_NODE), aware_cpu=self._settings.on(AWARE_CPU_MANUFACTURER)
        )
        nodes = [node for node in self._nodes.list() if not deleting(node)]
        self._known = {name_of(node): self._facts(node) for node in nodes}
        return plan_flavors([facts for _, facts in self._known.values() if facts is not None], settings)

    def _facts(self, node: Obj) -> tuple[object, NodeFacts | None]:
        """A node's facts with what they were read from: read again only where that has changed."""
        devices = self._devices.get(name_of(node))
        source = (labels_of(node), annotations_of(node), devices and devices["metadata"].get("generation"))
        known = self._known.get(name_of(node))
        return known if known is not None and known[0] == source else (source, node_facts(node, devices))

    async def _end_flavors(self, plan: FlavorPlan) -> float | None:
        """Delete what is to go; says in how many seconds the next flavor's grace is over."""
        ours = {name_of(flavor): flavor for flavor in self._flavors.list() if _ours(flavor) and not deleting(flavor)}
        since = {name: self._without_nodes.get(name, monotonic()) for name in ours if name not in plan.flavors}
        self._without_nodes = since
        left = {name: GRACE_SECONDS - (monotonic() - began) for name, began in since.items()}
        for name, flavor in ours.items():
            if left.get(name, 1) <= 0:
                log.info("no node is left for this flavor: deleting it", flavor=name)
            elif name in plan.flavors and _selects_otherwise(flavor, plan.flavors[name]):
                log.info("this flavor is to select other nodes: making it anew", flavor=name)
            else:
                continue
            await self._kube.delete(RESOURCE_FLAVORS, name, uid=uid_of(flavor))
        return min((seconds for seconds in left.values() if seconds > 0), default=None)

    async def _derive(self, instance_type: Obj) -> None:
        if self._instance_types.get(name_of(instance_type)) is not None:
            return
        try:
            self._instance_types.observe(await self._kube.create(INSTANCE_TYPES, instance_type))
        except AlreadyExists:
            return  # made by a person, or by us and not seen yet: either way its spec is not ours to touch
        log.info("made an instance type for nodes that appeared", instance_type=name_of(instance_type))


def _all_nodes(_: Obj) -> str:
    return ALL_NODES


def _selects_otherwise(live: Obj | None, wanted: Obj) -> bool:
    """Whether a flavor selects other nodes than it should. Kueue lets nobody change that while there is a topology."""
    return live is not None and live["spec"].get("nodeLabels") != wanted["spec"]["nodeLabels"]


def _ours(flavor: Obj) -> bool:
    return labels_of(flavor).get(RESOURCE_TYPE) == TYPE_NODES
