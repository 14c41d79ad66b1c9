"""Node fit: per-card room, as labels that Kueue's placement can select on.

Topology-aware scheduling adds up a node's keys and cannot see how its free room is spread over cards. Two labels per
model say so: the most units free on one card that still has a slot, and how many cards can still grant a share.

Owns the `*.fit.gpustack.ai/<aKey>` labels of managed Nodes; they go when the node is managed no longer or has no such
cards. Every label change makes Kueue look at its flavors again, so a node is written at most once in a window: the
first change at once, those that follow together at its end.

Woken by Devices, and by Nodes that come or change labels.
"""

from collections.abc import Iterable

from gpustack_ctl.accel.fit_labels import fit_labels
from gpustack_ctl.accel.labels import MANAGED, SHARED_FIT_PREFIX, SLICED_FIT_PREFIX
from gpustack_ctl.accel.ledger import published
from gpustack_ctl.controllers.pace import Pace
from gpustack_ctl.controllers.sources import labels_changed
from gpustack_ctl.controllers.writes import NODES_AT_ONCE
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, again, changes
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, deleting, labels_of, name_of, uid_of
from gpustack_ctl.kube.resources import NODES

MANAGER = "gpustack-node-fit"
WINDOW_SECONDS = 3.0

_PREFIXES = (SLICED_FIT_PREFIX, SHARED_FIT_PREFIX)


class NodeFit(Controller):
    """Keys are node names."""

    name = "node-fit"
    workers = NODES_AT_ONCE

    def __init__(self, *, kube: Kube, nodes: Informer, devices: Informer) -> None:
        self._kube = kube
        self._nodes = nodes
        self._devices = devices
        self._pace = Pace(WINDOW_SECONDS)

    def wakes(self) -> Iterable[Wake]:
        yield changes(self._devices)
        yield changes(self._nodes, when=labels_changed)

    async def reconcile(self, key: str) -> Result:
        node = self._nodes.get(key)
        if node is None or deleting(node):
            self._pace.forget(key)
            return DONE
        patch = self._patch(node)
        if not patch:
            return DONE
        if early := self._pace.early(key):
            return again(early)
        metadata = {"uid": uid_of(node), "labels": patch}
        self._nodes.observe(await self._kube.patch(NODES, key, {"metadata": metadata}, field_manager=MANAGER))
        self._pace.went(key)
        return DONE

    def _patch(self, node: Obj) -> dict[str, str | None]:
        """The labels to write, and with None those to take away; empty when all is as it should be."""
        present = {label: value for label, value in labels_of(node).items() if label.startswith(_PREFIXES)}
        devices = self._devices.get(name_of(node)) if labels_of(node).get(MANAGED) == "true" else None
        wanted = fit_labels(published(devices)) if devices is not None else {}
        changed = {label: value for label, value in wanted.items() if present.get(label) != value}
        return {**changed, **dict.fromkeys(present.keys() - wanted.keys())}
