"""The manager as a process among others: Kueue that comes late, an API server that goes away."""

from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskStatus

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import NotFound
from gpustack_ctl.kube.objects import is_true, name_of
from gpustack_ctl.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CRDS,
    DEVICES,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    RESOURCE_FLAVORS,
)
from gpustack_ctl.localcluster import FakeNodes
from gpustack_ctl.localcluster.assets import Assets
from gpustack_ctl.localcluster.kueue import definitions
from tests.integration.controllers.stage import Stage, a_pool, running_manager, until
from tests.integration.kube.plane import Plane


async def install_kueue(kube: Kube, assets: Assets) -> None:
    """Kueue's kinds; its own controllers are not needed to see what ours write."""
    for crd in definitions(assets.manifests):
        await kube.create(CRDS, crd)


async def test_a_manager_without_kueue_serves_gate_1_and_goes_on_when_kueue_comes(alone: Kube, assets: Assets) -> None:
    async with running_manager(alone):
        await until("gate 1 is registered", lambda: alone.get(MUTATING_WEBHOOKS, "gpustack-worker-mutation"))
        with pytest.raises(NotFound):
            await alone.list(ADMISSION_CHECKS)
        await install_kueue(alone, assets)

        async def active() -> bool:
            return is_true(await alone.get(ADMISSION_CHECKS, "gpustack-node-devices"), "Active")

        await until("the AdmissionCheck is there and Active", active, seconds=15)
        await alone.delete(ADMISSION_CHECKS, "gpustack-node-devices")
        await until("it was deleted and is made again", active)


async def test_a_manager_outlives_its_api_server_and_catches_up(plane: Plane, alone: Kube, assets: Assets) -> None:
    await install_kueue(alone, assets)
    pool, stage = a_pool(), Stage(alone, FakeNodes(Path(plane.kubeconfig())))

    async def covered() -> bool:
        groups = (await alone.get(CLUSTER_QUEUES, pool.queue))["spec"].get("resourceGroups", ())
        return [flavor["name"] for group in groups for flavor in group["flavors"]] == [pool.flavor(4)]

    async with running_manager(alone):
        node = await stage.add_node(pool, cards=2)
        await until("the flavor is there", lambda: alone.get(RESOURCE_FLAVORS, pool.flavor(2)), seconds=10)
        await plane.kill()
        await anyio.sleep(5)
        await plane.start()
        await alone.delete(NODES, node)
        other = await stage.add_node(pool, cards=4)
        await until("a flavor for the new node", lambda: alone.get(RESOURCE_FLAVORS, pool.flavor(4)), seconds=15)
        await until("the old node's flavor goes", lambda: stage.gone(RESOURCE_FLAVORS, pool.flavor(2)), seconds=15)
        await until("the old node's ledger goes", lambda: stage.gone(DEVICES, node), seconds=15)
        await until("the queue covers the new node alone", covered, seconds=15)
        assert [name_of(each) for each in await alone.list(DEVICES)] == [other]


async def test_when_the_leader_ends_another_replica_goes_on(plane: Plane, alone: Kube, assets: Assets) -> None:
    await install_kueue(alone, assets)
    pool, stage = a_pool(), Stage(alone, FakeNodes(Path(plane.kubeconfig())))

    async def leads(replica: str = "") -> str:
        lease = await alone.get(LEASES, "gpustack-manager", "gpustack-system")
        holder = lease["spec"].get("holderIdentity") or ""
        return holder if holder != replica else ""

    async def replica(ends: anyio.Event, *, task_status: TaskStatus[None]) -> None:
        async with running_manager(alone, leader_elect=True):
            task_status.started()
            await ends.wait()

    first_ends, test_ends = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        await tasks.start(replica, first_ends)
        first = await until("the first replica leads", leads, seconds=10)
        await tasks.start(replica, test_ends)
        first_ends.set()
        await until("the second replica leads", lambda: leads(first), seconds=5)
        await stage.add_node(pool, cards=1)
        await until("it makes the flavor", lambda: alone.get(RESOURCE_FLAVORS, pool.flavor(1)), seconds=10)
        test_ends.set()
