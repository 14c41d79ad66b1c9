"""What the agent says of its node: the `Devices` object, spec and status, and the Node's feature labels.

Written by server-side apply as one field manager, so that the manager's own labels on the same objects stay, and only
when something would change. A promise is published at once; changes that follow within a moment share one write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any, ClassVar

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.features import feature_labels
from gpustack_ctl.accel.ledger import Ledger, status_of
from gpustack_ctl.agent.cpu import Cpu, cpu_of
from gpustack_ctl.agent.ledger_faults import LedgerFaults
from gpustack_ctl.agent.node_ledger import NodeLedger
from gpustack_ctl.kube.apply import subset_equal
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, again, changes
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, annotations_of, labels_of, uid_of
from gpustack_ctl.kube.resources import DEVICES, NODES

FIELD_MANAGER = "gpustack-node-agent"

#: Changes within this many seconds of a write share the next one.
_DEBOUNCE_SECONDS = 0.1


class Publication(Controller):
    """Keeps `Devices` and the Node's feature labels as the node is. `nodes` and `devices` hold this node's alone."""

    name: ClassVar[str] = "node-publication"

    def __init__(
        self, *, ledger: NodeLedger, nodes: Informer, devices: Informer, kube: Kube, faults: LedgerFaults
    ) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._devices = devices
        self._kube = kube
        self._faults = faults
        self._written = 0.0
        ledger.on_change(self._look_again)

    def wakes(self) -> Iterable[Wake]:
        yield changes(self._nodes, when=_says_otherwise)
        yield changes(self._devices)

    async def reconcile(self, key: str) -> Result:
        node = self._nodes.get(key)
        if node is None:
            return DONE  # the kubelet has not registered yet: nothing may own a Devices object of no node
        waited = monotonic() - self._written
        if waited < _DEBOUNCE_SECONDS:
            return again(_DEBOUNCE_SECONDS - waited)
        ledger = self._ledger.current
        self._faults.look(ledger)
        await self._publish_devices(node, ledger)
        await self._publish_labels(node)
        return DONE

    async def _publish_devices(self, node: Obj, ledger: Ledger) -> None:
        live = self._devices.get(key := node["metadata"]["name"])
        wanted = {
            "apiVersion": DEVICES.api_version,
            "kind": DEVICES.kind,
            "metadata": {"name": key, "labels": self._identity(node), "ownerReferences": [_owner(node)]},
            "spec": self._ledger.inventory.spec(),
        }
        if live is None or not subset_equal(wanted, live):
            live = await self._kube.apply(DEVICES, wanted, manager=FIELD_MANAGER)
            self._wrote(self._devices, live)
        status = status_of(ledger)
        if live.get("status") != status:
            named = {key: wanted[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": key}}
            live = await self._kube.apply(
                DEVICES, named | {"status": status}, manager=FIELD_MANAGER, subresource="status"
            )
            self._wrote(self._devices, live)

    async def _publish_labels(self, node: Obj) -> None:
        cpu = cpu_of(node)
        wanted = self._features(cpu)
        notes = {labels.note("cpuDetail"): cpu.detail} if cpu.detail else {}
        live = {key: value for key, value in labels_of(node).items() if _is_feature(key)}
        if live == wanted and subset_equal(notes, annotations_of(node)):
            return
        # With its uid, so that a Node deleted meanwhile is not made anew by this write.
        metadata = {"name": node["metadata"]["name"], "uid": uid_of(node), "labels": wanted, "annotations": notes}
        patched = await self._kube.apply(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata}, manager=FIELD_MANAGER
        )
        self._wrote(self._nodes, patched)

    def _features(self, cpu: Cpu) -> dict[str, str]:
        return feature_labels(self._ledger.inventory.spec(), gkey=cpu.key, cores=cpu.cores)

    def _identity(self, node: Obj) -> dict[str, str]:
        """The labels by which a flavor selects its nodes, without counts, which change with the hardware."""
        features = self._features(cpu_of(node))
        identity = {key: value for key, value in features.items() if value == "true" or key == labels.ACCELERATABLE}
        found = labels_of(node)
        return identity | {key: found[key] for key in (labels.OS, labels.ARCH) if key in found}

    def _wrote(self, informer: Informer, obj: Obj) -> None:
        self._written = monotonic()
        informer.observe(obj)

    def _look_again(self) -> None:
        if hasattr(self, "queue"):  # before `run` there is none, and nothing to catch up with either
            self.queue.add(self._ledger.node_name)


def _says_otherwise(old: Obj | None, new: Obj | None) -> bool:
    """Not the kubelet's heartbeat: only what is published depends on, or was published."""
    return _said(old) != _said(new)


def _said(node: Obj | None) -> object:
    if node is None:
        return None
    capacity = (node.get("status") or {}).get("capacity") or {}
    return uid_of(node), labels_of(node), annotations_of(node).get(labels.note("cpuDetail")), capacity.get("cpu")


def _owner(node: Obj) -> Mapping[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"], "uid": uid_of(node)}


def _is_feature(key: str) -> bool:
    return key.startswith((labels.GENERAL_PREFIX, labels.ACCELERATABLE_PREFIX)) or key == labels.ACCELERATABLE
