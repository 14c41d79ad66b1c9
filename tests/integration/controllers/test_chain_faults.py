"""The chain under faults: kinds that go and come, namespaces that end, managers that die or are two, settings from the
environment. What is left afterwards is the same as without the fault.
"""

import json
import re
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskStatus

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import KubeError, NotFound
from gpustack_ctl.kube.objects import Obj, key_of
from gpustack_ctl.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CRDS,
    DEVICES,
    INSTANCE_TYPES,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    RESOURCE_FLAVORS,
    SETTINGS,
    TOPOLOGIES,
)
from gpustack_ctl.localcluster import FakeNodes, LocalCluster
from gpustack_ctl.localcluster.assets import Assets
from gpustack_ctl.localcluster.kueue import definitions
from tests.e2e.roles import Role, manager_of
from tests.integration.controllers.stage import Pool, Stage, a_pool, running_manager, until
from tests.integration.controllers.test_pool_appears import active_queue, active_type
from tests.integration.kube.plane import Plane
from tests.integration.webhooks.replica import unregister

OF_KUEUE = (ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES)
OURS = (INSTANCE_TYPES, CLUSTER_QUEUES, RESOURCE_FLAVORS, LOCAL_QUEUES, DEVICES, NODES)


async def install(kube: Kube, assets: Assets) -> None:
    for crd in definitions(assets.manifests):
        await kube.create(CRDS, crd)


async def covered(kube: Kube, pool: Pool, cards: int) -> bool:
    groups = (await kube.get(CLUSTER_QUEUES, pool.queue))["spec"].get("resourceGroups") or ()
    return [flavor["name"] for group in groups for flavor in group["flavors"]] == [pool.flavor(cards)]


async def test_kueue_that_is_removed_and_installed_again_is_filled_again(
    plane: Plane, alone: Kube, assets: Assets
) -> None:
    await install(alone, assets)
    pool, stage = a_pool(), Stage(alone, FakeNodes(Path(plane.kubeconfig())))
    async with running_manager(alone):
        await stage.add_node(pool, cards=2)
        await until("the queue has its groups", lambda: covered(alone, pool, 2), seconds=15)
        for resource in OF_KUEUE:
            await alone.delete(CRDS, str(resource))
        await until("they are gone", lambda: _none_left(stage), seconds=20)
        await anyio.sleep(2)
        for crd in definitions(assets.manifests):
            if not await _exists(alone, crd):
                await alone.create(CRDS, crd)
        await until("the queue has its groups again", lambda: covered(alone, pool, 2), seconds=60)


async def test_a_namespace_that_ends_while_it_gets_entrances_is_let_go(
    managed: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    pool, kube = a_pool(), managed.kube
    await managed.add_node(pool, cards=1)
    await until("the queue is Active", lambda: active_queue(kube, pool))
    names = [f"brief-{pool.model}-{number}" for number in range(8)]
    for name in names:
        await kube.create(NAMESPACES, {"metadata": {"name": name}})
        await kube.delete(NAMESPACES, name)
    for name in names:
        await until("it is gone", lambda name=name: managed.gone(NAMESPACES, name), seconds=20)
    lasting = f"lasting-{pool.model}"
    await kube.create(NAMESPACES, {"metadata": {"name": lasting}})
    await until("others get theirs", lambda: kube.get(LOCAL_QUEUES, pool.entrance, lasting))
    assert "reconcile failed" not in capsys.readouterr().out, "nothing of that is worth a line"
    await kube.delete(NAMESPACES, lasting)


async def test_a_pool_that_others_keep_writing_to_opens_all_the_same(managed: Stage) -> None:
    pool, kube = a_pool(), managed.kube

    async def keep_writing() -> None:
        number = 0
        while True:
            number += 1
            for resource in (CLUSTER_QUEUES, INSTANCE_TYPES):
                with suppress(KubeError):
                    await kube.patch(resource, pool.queue, {"metadata": {"annotations": {"storm": str(number)}}})

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(keep_writing)
        await managed.add_node(pool, cards=2)
        await until("the pool is Active", lambda: active_type(kube, pool), seconds=20)
        await until("the queue is Active", lambda: active_queue(kube, pool), seconds=20)
        tasks.cancel_scope.cancel()


async def test_a_manager_killed_at_any_moment_leaves_what_the_next_one_completes(
    control_plane: LocalCluster, stage: Stage, tmp_path: Path
) -> None:
    kube, role = stage.kube, manager_of(control_plane, tmp_path)
    pools = [a_pool() for _ in range(3)]
    try:
        for number, pool in enumerate(pools):
            await role.start()
            await stage.add_node(pool, cards=2)
            await anyio.sleep(0.15 * number)
            await role.kill()
        await role.start()
        for pool in pools:
            await until("every pool is Active", lambda pool=pool: active_type(kube, pool), seconds=30)
        found = [await shape(kube, pool) for pool in pools]
    finally:
        await _end(role, kube)
    assert all(each == found[0] for each in found), "they differ in their names only"


async def test_two_replicas_and_a_change_of_leader_write_what_one_writes(
    stage: Stage,
) -> None:
    kube, alone, together = stage.kube, a_pool(), a_pool()
    async with running_manager(kube):
        await stage.add_node(alone, cards=2)
        await until("the pool is Active", lambda: active_type(kube, alone), seconds=10)
        await anyio.sleep(1)
        by_one = await shape(kube, alone)

    async def replica(ends: anyio.Event, *, task_status: TaskStatus[None]) -> None:
        async with running_manager(kube, leader_elect=True):
            task_status.started()
            await ends.wait()

    first, second = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        await tasks.start(replica, first)
        await tasks.start(replica, second)
        await stage.add_node(together, cards=2)
        await until("the flavor is there", lambda: kube.get(RESOURCE_FLAVORS, together.flavor(2)), seconds=15)
        first.set()
        await until("the pool is Active", lambda: active_type(kube, together), seconds=30)
        await anyio.sleep(1)
        assert await shape(kube, together) == by_one
        second.set()


async def test_a_setting_in_the_environment_is_stored_once_and_never_over_a_stored_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube, seeded = stage.kube, "instance-privileged-allowed"
    monkeypatch.setenv("GPUSTACK_INSTANCE_PRIVILEGED_ALLOWED", "true")
    monkeypatch.setenv("GPUSTACK_INSTANCE_HOST_PATH_VOLUME_ALLOWED", "perhaps")

    async def told() -> Obj | None:
        setting = await kube.get(SETTINGS, seeded)
        return setting if "status" in setting else None

    async with running_manager(kube):
        setting = await until("it is stored", told)
        assert (setting["spec"]["value"], setting["status"]["default"]) == ("true", "false")
        await kube.patch(SETTINGS, seeded, {"spec": {"value": "false"}})
    async with running_manager(kube):
        await anyio.sleep(1)
        assert (await kube.get(SETTINGS, seeded))["spec"]["value"] == "false"
        with pytest.raises(NotFound):
            await kube.get(SETTINGS, "instance-host-path-volume-allowed")
    await kube.delete(SETTINGS, seeded)


async def shape(kube: Kube, pool: Pool) -> dict[str, str]:
    """All that was made for a pool: what we write of it, under names that do not tell it from another pool."""
    return {
        _anonymous(f"{resource} {key_of(obj)}", pool): _anonymous(_written(obj), pool)
        for resource in OURS
        for obj in await kube.list(resource)
        if pool.model in key_of(obj) or pool.entrance in key_of(obj)
    }


def _written(obj: Obj) -> str:
    """An object without what the API server stamps on it, and without the half of a Node that is not ours."""
    metadata = {field: obj["metadata"].get(field) for field in ("labels", "annotations", "finalizers")}
    phase = (obj.get("status") or {}).get("phase")
    return json.dumps([metadata, None if obj.get("kind") == "Node" else obj.get("spec"), phase], sort_keys=True)


def _anonymous(text: str, pool: Pool) -> str:
    node = re.compile(re.escape(pool.model) + "-[0-9a-f]{5}")
    return node.sub("NODE", text).replace(pool.model, "MODEL").replace(pool.entrance, "ENTRANCE")


async def _exists(kube: Kube, crd: Obj) -> bool:
    try:
        await kube.get(CRDS, crd["metadata"]["name"])
    except NotFound:
        return False
    return True


async def _none_left(stage: Stage) -> bool:
    return all([await stage.gone(CRDS, str(resource)) for resource in OF_KUEUE])


async def _end(role: Role, kube: Kube) -> None:
    with anyio.CancelScope(shield=True):
        if role.alive:
            await role.stop()
        await unregister(kube)
