"""What the controllers' tests act on: a manager as the command runs it, nodes whose kubelets are played, and ledgers
written as an agent writes them. Every test takes a card model of its own, so that its pool is nobody else's.
"""

import itertools
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

import anyio

from gpustack_ctl import manager
from gpustack_ctl.accel import labels
from gpustack_ctl.accel.features import feature_labels
from gpustack_ctl.accel.naming import entrance_name
from gpustack_ctl.accel.units import M
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import NotFound
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import (
    DEVICES,
    MUTATING_WEBHOOKS,
    NODES,
    VALIDATING_WEBHOOKS,
    WORKLOADS,
    Resource,
)
from gpustack_ctl.localcluster import FakeNode, FakeNodes
from gpustack_ctl.telemetry.health import Health
from gpustack_ctl.webhooks.run import WebhookConfig

T = TypeVar("T")

SLOTS = 128
MEMORY_MIB = 24576
CORES = 32

_number = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Pool:
    """A card model that one test made up, and the names that follow from it."""

    model: str

    @property
    def akey(self) -> str:
        return f"nvidia-{self.model}"

    @property
    def queue(self) -> str:
        return f"gpustack--{self.akey}-linux-amd64"

    @property
    def entrance(self) -> str:
        return entrance_name(self.queue)

    def flavor(self, cards: int) -> str:
        return f"gpustack--generic--{self.akey}-linux-amd64-{cards}d"


def a_pool() -> Pool:
    return Pool(f"t{uuid.uuid4().hex[:6]}-{next(_number)}")


@dataclass(frozen=True, slots=True)
class Stage:
    """The cluster as a test touches it."""

    kube: Kube
    nodes: FakeNodes
    added: list[str] = field(default_factory=list)

    async def add_node(self, pool: Pool, *, cards: int, name: str | None = None) -> str:
        """A node with so many cards of the pool's model, and the ledger that an agent on it publishes at its start."""
        name = name or f"{pool.model}-{uuid.uuid4().hex[:5]}"
        tokens = {
            "nvidia.com/gpu": str(cards),
            "nvidia.com/gpu.shared": str(10 * cards),
            "nvidia.com/gpu.sliced": str(SLOTS * cards),
        }
        return await self.add_machine(name, devices_spec(pool, name, cards), capacity=tokens)

    async def add_machine(
        self,
        name: str,
        spec: Obj,
        *,
        gkey: str = "generic",
        capacity: Mapping[str, str] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> str:
        """A node with the cards that `spec` names, none if it names none, and labels `also` beside its features."""
        room = {"cpu": str(CORES), "memory": "256Gi", "pods": "110", **(capacity or {})}
        features = feature_labels(spec, gkey=gkey, cores=CORES)
        self.added.append(name)
        await self.nodes.add([FakeNode(name=name, labels={**features, **(also or {})}, capacity=room)])
        if spec.get("groups"):
            await self.kube.create(DEVICES, devices(await self.kube.get(NODES, name), spec, features))
        return name

    async def occupy(self, node: str, *, whole: int = 0, percent: Mapping[int, int] | None = None) -> None:
        """Publish a ledger in which the first cards are held whole and others are sliced by so many percent."""
        held = await self.kube.get(DEVICES, node)
        taken = dict.fromkeys(range(whole), (1, M))
        taken |= {index: (3, part * M // 100) for index, part in (percent or {}).items()}
        await self.kube.patch(DEVICES, node, {"status": devices_status(held["spec"], taken)}, subresource="status")

    async def gone(self, resource: Resource, name: str) -> bool:
        try:
            await self.kube.get(resource, name)
        except NotFound:
            return True
        return False


@asynccontextmanager
async def running_manager(kube: Kube, *, leader_elect: bool = False) -> AsyncIterator[Informers]:
    """The manager as `gpustack-ctl manager` runs it, webhooks included; nothing of it stays registered."""
    port = _free_port()
    webhook = WebhookConfig(port=port, host="127.0.0.1", url=f"https://127.0.0.1:{port}")
    config = manager.ManagerConfig(webhook=webhook, leader_elect=leader_elect)
    informers = Informers(kube)
    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        await tasks.start(manager.run, config, kube, informers, Health())
        try:
            yield informers
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await kube.delete(MUTATING_WEBHOOKS, "gpustack-worker-mutation")
                await kube.delete(VALIDATING_WEBHOOKS, "gpustack-worker-validation")


async def until(what: str, look: Callable[[], Awaitable[T]], *, seconds: float = 10) -> T:
    """The first true answer of `look`; an AssertionError that names what never came."""
    ends = monotonic() + seconds
    while True:
        try:
            found = await look()
        except NotFound:
            found = None
        if found:
            return found
        assert monotonic() < ends, f"not within {seconds} s: {what}; last seen {found!r}"
        await anyio.sleep(0.05)


def devices_spec(pool: Pool, node: str, cards: int) -> Obj:
    accelerators = [
        {
            "id": f"GPU-{node}-{index}",
            "index": index,
            "status": {"unhealthy": False, "logicalSliced": {"count": SLOTS, "coresPercentageOvercommit": True}},
        }
        for index in range(cards)
    ]
    group = {
        "id": pool.model,
        "manufacturer": "nvidia",
        "name": f"NVIDIA {pool.model}",
        "memory": MEMORY_MIB,
        "cores": 9216,
        "accelerators": accelerators,
    }
    return {"groups": [group]}


def devices(node: Obj, spec: Obj, features: Mapping[str, str]) -> Obj:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"], "uid": node["metadata"]["uid"]}
    identity = {key: value for key, value in features.items() if value == "true"}
    place = {labels.OS: "linux", labels.ARCH: "amd64"}
    return {
        "metadata": {"name": owner["name"], "labels": {**identity, **place}, "ownerReferences": [owner]},
        "spec": spec,
    }


def devices_status(spec: Obj, taken: Mapping[int, tuple[int, int]]) -> Obj:
    """`taken`: mode and units by card index."""
    groups = []
    for group in spec["groups"]:
        rows = []
        for card in group["accelerators"]:
            mode, units = taken.get(card["index"], (0, 0))
            slices = 1 if mode == 3 else 0
            row = {"id": card["id"], "index": card["index"], "mode": mode, "allocated": units, "remaining": M - units}
            rows.append({**row, "allocatedSlices": slices})
        groups.append({"id": group["id"], "manufacturer": group["manufacturer"], "accelerators": rows})
    return {"groups": groups}


def pod(pool: Pool, namespace: str, name: str, limits: Mapping[str, str], **spec: Any) -> Obj:
    """A Pod that enters the pool and asks for `limits`."""
    container = {"name": "main", "image": "busybox", "resources": {"limits": dict(limits)}}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {labels.KUEUE_QUEUE_NAME: pool.entrance}},
        "spec": {"containers": [container], "restartPolicy": "Never", **spec},
    }


async def workload_of(kube: Kube, namespace: str, pod_name: str) -> Obj | None:
    """The Workload that Kueue made for a Pod."""
    for workload in await kube.list(WORKLOADS, namespace):
        if any(owner["name"] == pod_name for owner in workload["metadata"].get("ownerReferences", ())):
            return workload
    return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
