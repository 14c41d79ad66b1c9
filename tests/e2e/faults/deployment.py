"""Both roles on a cluster with a kubelet, each its own process, and Pods that enter through all five gates."""

import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import yaml

from gpustack_ctl.accel.labels import ADMISSION_CHECK, KUEUE_QUEUE_NAME
from gpustack_ctl.accel.naming import akey, group_id
from gpustack_ctl.accel.records import record_of
from gpustack_ctl.controllers.pins import pin_of
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import AlreadyExists, KubeError
from gpustack_ctl.kube.objects import Obj, is_true, name_of
from gpustack_ctl.kube.resources import DEVICES, INSTANCE_TYPES, LOCAL_QUEUES, NAMESPACES, PODS, WORKLOADS
from gpustack_ctl.localcluster import LocalCluster, LocalNode
from gpustack_ctl.localcluster.images import BUSYBOX
from tests.e2e.roles import FOUR_A10G, Role, agent_of, manager_of, until


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The product as it runs, and a namespace to send Pods to."""

    cluster: LocalCluster
    kube: Kube
    node: LocalNode
    manager: Role
    agent: Role
    namespace: str
    queue: str

    async def ask(self, name: str, percent: int) -> None:
        """Send a Pod that wants a slice; as often as it takes, for the API server may be away or its webhook be."""
        while True:
            try:
                await self.kube.create(PODS, self._pod(name, percent))
            except AlreadyExists:  # the answer to an earlier try was lost
                return
            except KubeError:
                await anyio.sleep(0.2)
            else:
                return

    async def running(self, *names: str, seconds: float = 60) -> None:
        """Wait until exactly these Pods run."""

        async def look() -> bool:
            found = await self.kube.list(PODS, self.namespace)
            return {name_of(pod) for pod in found if pod["status"].get("phase") == "Running"} == set(names)

        await until(f"{len(names)} Pods run", look, seconds=seconds)

    async def verdicts(self) -> Counter[str]:
        """How many Workloads gate 3 has told what; one that waits under a pin was told Retry."""
        return Counter(
            "Retry" if pin_of(workload) and not is_true(workload, "QuotaReserved") else check["state"]
            for workload in await self.kube.list(WORKLOADS, self.namespace)
            for check in (workload.get("status") or {}).get("admissionChecks") or ()
            if check["name"] == ADMISSION_CHECK
        )

    async def recorded(self) -> dict[str, int]:
        """Units held on each card, by the records of the Pods."""
        units: Counter[str] = Counter()
        for pod in await self.kube.list(PODS, self.namespace):
            for entries in record_of(pod).values():
                units.update({entry.id: entry.units for entry in entries})
        return dict(units)

    async def published(self) -> dict[str, int]:
        """Units held on each card, by the ledger."""
        devices = await self.kube.get(DEVICES, self.node.name)
        return {row["id"]: row["allocated"] for row in rows(devices) if row["allocated"]}

    async def settled(self) -> None:
        """Wait until the ledger says what the records say."""

        async def look() -> bool:
            return await self.published() == await self.recorded()

        await until("the ledger is what the records add up to", look)

    async def clear(self) -> None:
        """Let every Pod go."""
        for pod in await self.kube.list(PODS, self.namespace):
            await self.kube.delete(PODS, name_of(pod), self.namespace)

        async def look() -> bool:
            return not await self.kube.list(PODS, self.namespace)

        await until("every Pod is gone", look, seconds=60)

    def _pod(self, name: str, percent: int) -> Obj:
        limits = {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-percentage": str(percent)}
        container = {
            "name": "main",
            "image": BUSYBOX,
            "imagePullPolicy": "Never",
            "command": ["sleep", "3600"],
            "resources": {"limits": limits},
        }
        return {
            "metadata": {"name": name, "namespace": self.namespace, "labels": {KUEUE_QUEUE_NAME: self.queue}},
            "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
        }


@asynccontextmanager
async def deployed(cluster: LocalCluster, directory: Path, *, inventory: str = FOUR_A10G) -> AsyncIterator[Deployment]:
    """Start both roles, and wait until a pool that follows from the node lets Pods in."""
    node, namespace = cluster.node(), f"test-{uuid.uuid4().hex[:8]}"
    manager, agent = manager_of(cluster, directory), agent_of(cluster, node, directory, inventory=inventory)
    async with Kube.connect(kubeconfig=str(cluster.kubeconfig)) as kube:
        await kube.create(NAMESPACES, {"metadata": {"name": namespace}})
        try:
            await manager.start()
            await agent.start()
            queue = await until("a pool is Active", lambda: _entrance(kube, model=_model(inventory)))
            await until("its entrance is there", lambda: kube.get(LOCAL_QUEUES, queue, namespace))
            deployment = Deployment(
                cluster=cluster,
                kube=kube,
                node=node,
                manager=manager,
                agent=agent,
                namespace=namespace,
                queue=queue,
            )
            yield deployment
            await deployment.clear()
        finally:
            for role in (agent, manager):
                if role.alive:
                    await role.stop()


def rows(devices: Obj) -> list[dict[str, Any]]:
    """The published cards of a node."""
    return [row for group in (devices.get("status") or {}).get("groups") or () for row in group["accelerators"]]


def _model(inventory: str) -> str:
    """The accelerator key of the inventory's first cards."""
    cards = yaml.safe_load(inventory)["cards"][0]
    return akey(cards["manufacturer"], group_id(cards["model"], cards["manufacturer"]))


async def _entrance(kube: Kube, *, model: str) -> str | None:
    """The entrance of that model's pool once its node has published its cards; other pools may still be there."""
    for found in await kube.list(INSTANCE_TYPES):
        status = found.get("status") or {}
        if found["spec"].get("acceleratorGroup") == model and status.get("phase") == "Active" and status.get("detail"):
            return str(status["entrance"])
    return None
