"""Topology: the shape of the hierarchy that each node fills, and the Kueue Topology that goes with it.

Kueue builds a flavor's tree from the levels of one Topology and leaves out a node that lacks one of them. So nodes are
labelled by which levels they fill, flavors select on that label, and there is one Topology per shape.

Owns the label `topology.gpustack.ai/profile` on managed Nodes, and the making of the Topologies named after its values.

Woken by Nodes that come, go or change labels, and by Topologies that somebody removes.
"""

from collections.abc import Iterable, Sequence

from gpustack_ctl.accel.labels import MANAGED, TOPOLOGY_PROFILE
from gpustack_ctl.accel.naming import topology_name
from gpustack_ctl.accel.profiles import topology, topology_profile
from gpustack_ctl.controllers.sources import labels_changed
from gpustack_ctl.controllers.writes import NODES_AT_ONCE, part_of, settle
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, changes
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, deleting, labels_of, name_of

MANAGER = "gpustack-topology"


class TopologyController(Controller):
    """Keys are node names. `levels` are the labels above the hostname that count, outermost first."""

    name = "topology"
    workers = NODES_AT_ONCE

    def __init__(self, *, kube: Kube, nodes: Informer, topologies: Informer, levels: Sequence[str]) -> None:
        self._kube = kube
        self._nodes = nodes
        self._topologies = topologies
        self._levels = levels

    def wakes(self) -> Iterable[Wake]:
        yield changes(self._nodes, when=labels_changed)
        yield changes(self._topologies, key=self._nodes_of, when=lambda _, new: new is None)

    async def reconcile(self, key: str) -> Result:
        node = self._nodes.get(key)
        if node is None or deleting(node) or labels_of(node).get(MANAGED) != "true":
            return DONE
        profile = topology_profile(labels_of(node), self._levels)
        await settle(self._kube, self._topologies, topology(profile), manager=MANAGER)
        wanted = part_of(node)
        wanted["metadata"]["labels"] = {TOPOLOGY_PROFILE: profile.value}
        await settle(self._kube, self._nodes, wanted, manager=MANAGER)
        return DONE

    def _nodes_of(self, topology: Obj) -> list[str]:
        """The nodes of that shape: the first to be looked at makes the Topology again."""
        labelled = ((name_of(node), labels_of(node).get(TOPOLOGY_PROFILE, "")) for node in self._nodes.list())
        return [name for name, profile in labelled if topology_name(profile) == name_of(topology)]
