"""From a node appearing to a pool that takes work, by a manager of its own process; and what that process weighs."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import anyio

from gpustack_ctl.controllers import crd_install
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import is_true
from gpustack_ctl.kube.resources import CLUSTER_QUEUES, INSTANCE_TYPES, LOCAL_QUEUES
from gpustack_ctl.localcluster import FakeNodes, LocalCluster
from tests.e2e.roles import manager_of
from tests.integration.controllers.stage import Pool, Stage, a_pool, until
from tests.integration.webhooks.replica import unregister

TURNS = 5
IDLE_SECONDS = 20


async def bench_chain(control_plane: LocalCluster, measured: Callable[..., None]) -> None:
    directory = Path(tempfile.mkdtemp(prefix="gsb-", dir="/tmp"))
    manager, nodes = manager_of(control_plane, directory), FakeNodes(control_plane.kubeconfig)
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig)) as kube, anyio.create_task_group() as tasks:
        await crd_install.ensure(kube)
        tasks.start_soon(nodes.run)
        stage = Stage(kube, nodes)
        await manager.start()
        try:
            active, whole = zip(*[await _turn(stage) for _ in range(TURNS)], strict=True)
            spent = manager.cpu_seconds
            await anyio.sleep(IDLE_SECONDS)
            idle = (manager.cpu_seconds - spent) / IDLE_SECONDS * 100
            resident = manager.resident_mib
        finally:
            with anyio.CancelScope(shield=True):
                await nodes.remove(*stage.added)
                await manager.stop()
                await unregister(kube)
            tasks.cancel_scope.cancel()
    shutil.rmtree(directory)

    measured(f"node appears → pool Active, slowest of {TURNS}", max(active), unit="s", goal=5)
    measured(f"node appears → queue and entrance take work, slowest of {TURNS}", max(whole), unit="s")
    measured("manager resident", resident, unit="MiB", goal=160)
    measured("manager's idle processor time", idle, unit="% of a core")


async def _turn(stage: Stage) -> tuple[float, float]:
    """Seconds until the pool of a new node is Active, and until a Pod could be sent to it."""
    pool, kube = a_pool(), stage.kube
    started = perf_counter()
    await stage.add_node(pool, cards=8)
    await until("the pool is Active", lambda: _active(kube, pool), seconds=30)
    active = perf_counter() - started
    await until("its queue is Active", lambda: _open(kube, pool), seconds=30)
    await until("its entrance is there", lambda: kube.get(LOCAL_QUEUES, pool.entrance, "default"), seconds=30)
    return active, perf_counter() - started


async def _active(kube: Kube, pool: Pool) -> bool:
    found = await kube.get(INSTANCE_TYPES, pool.queue)
    return bool((found.get("status") or {}).get("phase") == "Active")


async def _open(kube: Kube, pool: Pool) -> bool:
    return is_true(await kube.get(CLUSTER_QUEUES, pool.queue), "Active")
