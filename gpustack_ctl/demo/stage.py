"""The stage: a cluster, both roles on it, and a namespace of the story's own.

The cluster is a local one made for the occasion, or the one that a kubeconfig names. Either way the story sees the same
things: a connection, the informers that the roles themselves use, and the entrance of a pool that appeared by itself.
"""

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from gpustack_ctl import roles
from gpustack_ctl.accel.families import Manufacturer, Manufacturers, manufacturers
from gpustack_ctl.agent.config import NodeAgentConfig
from gpustack_ctl.demo.sites import Site
from gpustack_ctl.demo.waiting import until
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.informer import Informer, Informers
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import DEVICES, INSTANCE_TYPES, LOCAL_QUEUES, NAMESPACES, PODS, WORKLOADS
from gpustack_ctl.manager import ManagerConfig
from gpustack_ctl.webhooks.run import WebhookConfig

NAMESPACE = "gpustack-demo"
INVENTORY = Path(__file__).with_name("inventory.yaml")

# Simulated cards have no driver to enforce a slice with; on real ones isolation stays on.
_UNENFORCED = {f"GPUSTACK_{key.upper()}_SLICE_ISOLATION": "off" for key in manufacturers().by_key}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Everything the story touches."""

    kube: Kube
    table: Manufacturers
    manufacturer: Manufacturer
    namespace: str
    node: str
    pool: str
    queue: str
    image: str
    pods: Informer
    workloads: Informer
    devices: Informer

    @property
    def cards(self) -> list[Obj]:
        """The node's ledger rows, as the agent published them, in index order."""
        status = (self.devices.get(self.node) or {}).get("status") or {}
        rows = [row for group in status.get("groups") or () for row in group.get("accelerators") or ()]
        return sorted(rows, key=lambda row: int(row.get("index", 0)))


@asynccontextmanager
async def set_up(site: Site, *, inventory: Path, step: Callable[[str], None]) -> AsyncIterator[Stage]:
    """Run both roles against `site`, wait for the pool to appear, and clear the story's namespace at the end."""
    manager, agent = _configurations(site, inventory)
    async with (
        Kube.connect(kubeconfig=site.kubeconfig, context=site.context) as kube,
        anyio.create_task_group() as tasks,
    ):
        step("starting manager and node agent")
        informers: Informers = await tasks.start(_serve, kube, manager, agent)
        try:
            yield await _pool(site, kube, informers, step)
        finally:
            with anyio.move_on_after(20, shield=True):
                await kube.delete(NAMESPACES, NAMESPACE)
            tasks.cancel_scope.cancel()


async def _serve(
    kube: Kube, manager: ManagerConfig, agent: NodeAgentConfig, *, task_status: anyio.abc.TaskStatus[Informers]
) -> None:
    await roles.serve(kube, manager=manager, agent=agent, task_status=task_status)


def _configurations(site: Site, inventory: Path) -> tuple[ManagerConfig, NodeAgentConfig]:
    port = _free_port()
    webhook = WebhookConfig(port=port, url=site.webhook_url or f"https://127.0.0.1:{port}")
    return (
        ManagerConfig(webhook=webhook, leader_elect=False),
        NodeAgentConfig(
            node_name=site.node,
            detector="simulated",
            inventory=inventory,
            kubelet_dir=site.kubelet_dir,
            state_dir=site.state_dir,
            env={**_UNENFORCED, **os.environ},
        ),
    )


async def _pool(site: Site, kube: Kube, informers: Informers, step: Callable[[str], None]) -> Stage:
    await kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    types, queues = informers.of(INSTANCE_TYPES), informers.of(LOCAL_QUEUES)
    devices, pods, workloads = informers.of(DEVICES), informers.of(PODS, namespace=NAMESPACE), informers.of(WORKLOADS)
    await informers.wait_synced(types, queues, devices, pods, workloads)

    step("waiting for the pool to appear from the node")
    table = manufacturers(os.environ)
    pool = await until("an InstanceType with accelerators is Active", lambda: _active(types), seconds=30)
    entrance = pool["status"]["entrance"]
    await until(
        f"LocalQueue {entrance} is there in namespace {NAMESPACE}",
        lambda: queues.get(f"{NAMESPACE}/{entrance}"),
        seconds=15,
    )
    manufacturer = table.of_akey(pool["spec"]["acceleratorGroup"])
    if manufacturer is None:
        raise ValueError(f"InstanceType {pool['metadata']['name']} names no known manufacturer")
    return Stage(
        kube=kube,
        table=table,
        manufacturer=manufacturer,
        namespace=NAMESPACE,
        node=site.node,
        pool=pool["metadata"]["name"],
        queue=entrance,
        image=site.image,
        pods=pods,
        workloads=workloads,
        devices=devices,
    )


def _active(types: Informer) -> Obj | None:
    for found in types.list():
        if found["spec"].get("acceleratable") and (found.get("status") or {}).get("phase") == "Active":
            return found
    return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
