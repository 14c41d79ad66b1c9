"""Node capacity: the counting keys of sliced and partitioned accelerators on a Node.

The kubelet counts only what device plugins advertise; these keys have no plugin, so the manager writes them, and only
while the family's own pool is present in the node's capacity: a node whose agent is gone must not look full of room.

Owns those keys in `Node.status.capacity` and `.allocatable`. The kubelet would copy capacity to allocatable by itself,
but only with its next status report, and Kueue reads allocatable. Keys that no longer hold are removed, which is why
this is a merge patch with nulls and not an apply.

Keys that are missing, zero or stale are put right at once: a kubelet kills a running Pod whose key is zero. Amounts
that merely move, as every partition that is cut moves the others', are written at most once in a window.

Woken by Nodes whose capacity changed and by Devices: the cards (spec) decide most keys, and the partitions held
(status) decide how many instances there are to count.
"""

from collections.abc import Iterable, Mapping

from gpustack_ctl.accel.capacity import capacity_keys, capacity_patch, counting_keys
from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.labels import MANAGED
from gpustack_ctl.accel.ledger import published
from gpustack_ctl.controllers.pace import Pace
from gpustack_ctl.controllers.writes import NODES_AT_ONCE
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, again, changes
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, deleting, labels_of
from gpustack_ctl.kube.resources import NODES

MANAGER = "gpustack-node-capacity"
WINDOW_SECONDS = 3.0


class NodeCapacity(Controller):
    """Keys are node names."""

    name = "node-capacity"
    workers = NODES_AT_ONCE

    def __init__(self, *, kube: Kube, nodes: Informer, devices: Informer, table: Manufacturers) -> None:
        self._kube = kube
        self._nodes = nodes
        self._devices = devices
        self._table = table
        self._pace = Pace(WINDOW_SECONDS)

    def wakes(self) -> Iterable[Wake]:
        yield changes(self._nodes, when=_counts_changed)
        yield changes(self._devices)

    async def reconcile(self, key: str) -> Result:
        node = self._nodes.get(key)
        if node is None or deleting(node):
            self._pace.forget(key)
            return DONE
        capacity, allocatable = _amounts(node, "capacity"), _amounts(node, "allocatable")
        wanted = self._wanted(node, capacity)
        counted = {
            "capacity": counting_keys(capacity, self._table),
            "allocatable": counting_keys(allocatable, self._table),
        }
        status = {field: patch for field, present in counted.items() if (patch := capacity_patch(wanted, present))}
        if not status:
            return DONE
        if all(_moves(wanted, present) for present in counted.values()) and (early := self._pace.early(key)):
            return again(early)
        patched = await self._kube.patch(NODES, key, {"status": status}, subresource="status", field_manager=MANAGER)
        self._nodes.observe(patched)
        self._pace.went(key)
        return DONE

    def _wanted(self, node: Obj, capacity: Mapping[str, str]) -> Mapping[str, str]:
        devices = self._devices.get(node["metadata"]["name"])
        if devices is None or labels_of(node).get(MANAGED) != "true":
            return {}
        return capacity_keys(published(devices), advertised=capacity, table=self._table)


def _moves(wanted: Mapping[str, str], present: Mapping[str, str]) -> bool:
    """Whether present and wanted keys are the same and differ in amounts only; a zero is as good as no key."""
    return wanted.keys() == present.keys() and not any(
        present[key] == "0" and amount != "0" for key, amount in wanted.items()
    )


def _amounts(node: Obj, field: str) -> Mapping[str, str]:
    return (node.get("status") or {}).get(field) or {}


def _counts_changed(old: Obj | None, new: Obj | None) -> bool:
    if old is None or new is None or labels_of(old).get(MANAGED) != labels_of(new).get(MANAGED):
        return True
    return any(_amounts(old, field) != _amounts(new, field) for field in ("capacity", "allocatable"))
