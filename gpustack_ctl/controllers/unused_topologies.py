"""Unused topologies: the end of a Kueue Topology whose shape no node has any more.

Apart from the controller that makes them, because it asks the other way round: that one looks at a node and knows its
Topology, this one looks at a Topology and must know that nobody needs it. A managed node of the shape counts, whether
or not it carries the label yet, and so does a flavor that refers to it, on its way out or not.

Woken by Topologies, by Nodes that change labels, and by flavors that come and go.
"""

import re
from collections.abc import Iterable, Sequence

import structlog

from gpustack_ctl.accel.labels import MANAGED
from gpustack_ctl.accel.naming import topology_name
from gpustack_ctl.accel.profiles import topology_profile
from gpustack_ctl.controllers.sources import labels_changed
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, changes
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, deleting, labels_of, uid_of
from gpustack_ctl.kube.resources import TOPOLOGIES

log = structlog.get_logger()

_OURS = re.compile(re.escape(topology_name("fnv64-")) + "[0-9a-f]{16}")


class UnusedTopologies(Controller):
    """Keys are names of Topologies. `levels` are the labels above the hostname that count, outermost first."""

    name = "unused-topologies"

    def __init__(
        self, *, kube: Kube, nodes: Informer, topologies: Informer, flavors: Informer, levels: Sequence[str]
    ) -> None:
        self._kube = kube
        self._nodes = nodes
        self._topologies = topologies
        self._flavors = flavors
        self._levels = levels

    def wakes(self) -> Iterable[Wake]:
        yield changes(self._topologies, when=lambda old, _: old is None)
        yield changes(self._nodes, key=self._topology_of, when=labels_changed)
        yield changes(self._flavors, key=_referred, when=lambda _, new: new is None)

    async def reconcile(self, key: str) -> Result:
        topology = self._topologies.get(key)
        if topology is None or deleting(topology) or not _OURS.fullmatch(key) or self._needed(key):
            return DONE
        log.info("no node has this shape any more: deleting its topology", topology=key)
        await self._kube.delete(TOPOLOGIES, key, uid=uid_of(topology))
        return DONE

    def _needed(self, name: str) -> bool:
        if any(_referred(flavor) == name for flavor in self._flavors.list()):
            return True
        managed = (node for node in self._nodes.list() if labels_of(node).get(MANAGED) == "true")
        return any(self._topology_of(node) == name for node in managed)

    def _topology_of(self, node: Obj) -> str:
        return topology_name(topology_profile(labels_of(node), self._levels).value)


def _referred(flavor: Obj) -> str:
    name: str = flavor["spec"].get("topologyName") or ""
    return name
