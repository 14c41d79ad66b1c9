"""Nodes without a kubelet: enough for everything that happens before a Pod reaches one, and for scale.

A fake node keeps what others read of a kubelet: a Lease that is renewed (without it the node turns NotReady after
40 s and topology-aware scheduling silently drops it), allocatable that follows capacity, and Pods that start when
bound and go when deleted.
"""

import argparse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import anyio
import structlog

from gpustack_ctl.localcluster.api import Api, ApiStatusError, Obj, connect

_MARK = "gpustack.local/fake-node"
_NODES = "/api/v1/nodes"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_BOUND_PODS = "/api/v1/pods?fieldSelector=spec.nodeName!%3D"
_LEASES_MISSED = 4
"""Renewals a node may miss before others may think it gone, as with a real kubelet (10 s of 40 s)."""

_AT_ONCE = 16
_AFTER_A_FAULT = 0.5

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeNode:
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=lambda: {"cpu": "64", "memory": "256Gi", "pods": "110"})


class FakeNodes:
    """The kubelets of any number of fake nodes, as one task: `tasks.start_soon(nodes.run)`.

    With ``run_pods`` off, a bound Pod stays Pending; deleted Pods go either way.
    """

    def __init__(self, kubeconfig: Path, *, lease_seconds: float = 10, run_pods: bool = True) -> None:
        self._kubeconfig = kubeconfig
        self._lease_seconds = lease_seconds
        self._run_pods = run_pods
        self._names: set[str] = set()

    async def add(self, nodes: Sequence[FakeNode]) -> None:
        """Create Nodes, Ready from their first moment; `run` keeps them so."""
        limiter = anyio.CapacityLimiter(_AT_ONCE)

        async def register(node: FakeNode) -> None:
            async with limiter:
                await self._register(api, node)

        async with connect(self._kubeconfig) as api, anyio.create_task_group() as tasks:
            for node in nodes:
                tasks.start_soon(register, node)

    async def remove(self, *names: str) -> None:
        """Delete Nodes, as when a machine is taken away."""
        self._names -= set(names)
        async with connect(self._kubeconfig) as api:
            for name in names:
                await api.delete(f"{_NODES}/{name}")
                await api.delete(f"{_LEASES}/{name}")

    async def run(self) -> None:
        """Play the kubelet of every added node until cancelled, through any outage of the API server."""
        async with connect(self._kubeconfig) as api, anyio.create_task_group() as tasks:
            tasks.start_soon(self._renew, api)
            tasks.start_soon(_follow, api, f"{_NODES}?labelSelector={_MARK}", self._mirror)
            tasks.start_soon(_follow, api, _BOUND_PODS, self._sync_pod)

    async def _register(self, api: Api, node: FakeNode) -> None:
        await api.create(_NODES, _node(node))
        # Admission taints every new node until its controller has seen it Ready; it has been from the start.
        await api.patch(f"{_NODES}/{node.name}", {"spec": {"taints": None}})
        await api.create(_LEASES, self._lease(node.name))
        self._names.add(node.name)

    async def _renew(self, api: Api) -> None:
        """Renew every Lease once a period, evenly spread: a burst of a thousand writes is no kubelet's habit."""
        while True:
            names = sorted(self._names)
            for name in names:
                await _tried(api.patch(f"{_LEASES}/{name}", {"spec": {"renewTime": _now()}}))
                await anyio.sleep(self._lease_seconds / len(names))
            if not names:
                await anyio.sleep(_AFTER_A_FAULT)

    async def _mirror(self, api: Api, node: Obj) -> None:
        """Allocatable follows capacity, as a kubelet that reserves nothing has it."""
        name, status = node["metadata"]["name"], node["status"]
        capacity, allocatable = status.get("capacity", {}), status.get("allocatable", {})
        if name in self._names and capacity != allocatable:
            gone = dict.fromkeys(set(allocatable) - set(capacity))
            await api.patch(f"{_NODES}/{name}/status", {"status": {"allocatable": {**gone, **capacity}}})

    async def _sync_pod(self, api: Api, pod: Obj) -> None:
        meta = pod["metadata"]
        if pod["spec"].get("nodeName") not in self._names:
            return
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if meta.get("deletionTimestamp"):
            await api.delete(f"{path}?gracePeriodSeconds=0")
        elif self._run_pods and pod["status"].get("phase") == "Pending":
            await api.patch(f"{path}/status", {"status": _running(pod)})

    def _lease(self, name: str) -> Obj:
        return {
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": max(1, round(_LEASES_MISSED * self._lease_seconds)),
                "renewTime": _now(),
            },
        }


async def _follow(api: Api, path: str, react: Callable[[Api, Obj], Awaitable[None]]) -> None:
    """React to every object of a listing, as it is and as it changes, for ever."""
    while True:
        try:
            listing = await api.get(path)
            for obj in listing["items"]:
                await _tried(react(api, obj))
            async for event in api.watch(path, listing["metadata"]["resourceVersion"]):
                if event["type"] in ("ADDED", "MODIFIED"):
                    await _tried(react(api, event["object"]))
        except (aiohttp.ClientError, ApiStatusError, TimeoutError) as error:
            _log.debug("fake nodes: watch broken off", path=path, error=str(error))
        await anyio.sleep(_AFTER_A_FAULT)


async def _tried(request: Awaitable[object]) -> None:
    """One write; what fails is met again at the next change, list or renewal."""
    try:
        await request
    except (aiohttp.ClientError, ApiStatusError, TimeoutError) as error:
        _log.debug("fake nodes: write failed", error=str(error))


def _node(node: FakeNode) -> Obj:
    now = _now(precise=False)
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fake"}
    return {
        "metadata": {
            "name": node.name,
            "labels": {
                "kubernetes.io/hostname": node.name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                _MARK: "true",
                **node.labels,
            },
        },
        "status": {
            "capacity": dict(node.capacity),
            "allocatable": dict(node.capacity),
            "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
        },
    }


def _running(pod: Obj) -> Obj:
    now = _now(precise=False)
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [
            *(condition for condition in pod["status"].get("conditions", ()) if condition["type"] == "PodScheduled"),
            *({"type": kind, "status": "True", "lastTransitionTime": now} for kind in ("ContainersReady", "Ready")),
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod["spec"]["containers"]
        ],
    }


def _now(*, precise: bool = True) -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ" if precise else "%Y-%m-%dT%H:%M:%SZ")


async def _serve(kubeconfig: Path, count: int) -> None:
    nodes = FakeNodes(kubeconfig)
    await nodes.add([FakeNode(name=fake_name(number)) for number in range(count)])
    await nodes.run()


def fake_name(number: int) -> str:
    return f"fake-{number:04d}"


def main() -> None:
    """`local up --fake-nodes N` leaves this running: the nodes live as long as somebody renews their Leases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("count", type=int)
    arguments = parser.parse_args()
    anyio.run(_serve, arguments.kubeconfig, arguments.count)


if __name__ == "__main__":
    main()
