"""Node management: which nodes are in the system's hands.

Owns the label `gpustack.ai/managed` on Nodes, unless the setting `node-management-manual` leaves it to people; its
mirror on `Devices`, together with the topology profile's, so that a ledger can be selected as its node is; and the end
of a `Devices` whose Node is gone. A cache may lag or have lost a node for a moment, and a deleted ledger takes the
account of running Pods with it, so that last step asks the API server itself first.

Woken by Nodes and Devices that come, go or change labels, and by the setting.
"""

from collections.abc import Iterable

import structlog

from gpustack_ctl.accel.labels import MANAGED, TOPOLOGY_PROFILE
from gpustack_ctl.controllers.settings import Settings
from gpustack_ctl.controllers.sources import labels_changed
from gpustack_ctl.controllers.writes import NODES_AT_ONCE, part_of, settle
from gpustack_ctl.crds.setting import NODE_MANAGEMENT_MANUAL
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, changes
from gpustack_ctl.kube.errors import NotFound
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, deleting, labels_of, name_of, uid_of
from gpustack_ctl.kube.resources import DEVICES, NODES

log = structlog.get_logger()

MANAGER = "gpustack-node-management"


class NodeManagement(Controller):
    """Keys are node names; a `Devices` carries the name of its Node."""

    name = "node-management"
    workers = NODES_AT_ONCE

    def __init__(self, *, kube: Kube, nodes: Informer, devices: Informer, settings: Settings) -> None:
        self._kube = kube
        self._nodes = nodes
        self._devices = devices
        self._settings = settings

    def wakes(self) -> Iterable[Wake]:
        yield changes(self._nodes, when=labels_changed)
        yield changes(self._devices, when=labels_changed)
        yield self._settings.wake(NODE_MANAGEMENT_MANUAL, keys=lambda: map(name_of, self._nodes.list()))

    async def reconcile(self, key: str) -> Result:
        node = self._nodes.get(key)
        if node is None:
            return await self._forget(key)
        if not deleting(node) and not self._settings.on(NODE_MANAGEMENT_MANUAL):
            wanted = part_of(node)
            wanted["metadata"]["labels"] = {MANAGED: "true"}
            await settle(self._kube, self._nodes, wanted, manager=MANAGER)
        return await self._mirror(self._nodes.get(key) or node)

    async def _mirror(self, node: Obj) -> Result:
        """Give the node's Devices the two labels as the node has them; a merge patch, because it also takes away."""
        devices = self._devices.get(name_of(node))
        if devices is None or deleting(devices):
            return DONE
        wanted = {label: labels_of(node).get(label) for label in (MANAGED, TOPOLOGY_PROFILE)}
        if wanted[MANAGED] and not wanted[TOPOLOGY_PROFILE]:
            return DONE  # the topology controller is about to label the node, and that wakes this key
        if all(labels_of(devices).get(label) == value for label, value in wanted.items()):
            return DONE
        patch = {"metadata": {"uid": uid_of(devices), "labels": wanted}}
        self._devices.observe(await self._kube.patch(DEVICES, name_of(devices), patch, field_manager=MANAGER))
        return DONE

    async def _forget(self, name: str) -> Result:
        devices = self._devices.get(name)
        if devices is None or deleting(devices):
            return DONE
        try:
            await self._kube.get(NODES, name)
        except NotFound:
            log.info("the node of this ledger is gone: deleting the ledger", node=name)
            await self._kube.delete(DEVICES, name, uid=uid_of(devices))
        return DONE
