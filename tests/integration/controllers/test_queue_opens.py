"""A queue opens when everything that guards it is there, and not a moment earlier."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest

from gpustack_ctl import manager
from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.controllers import crd_install
from gpustack_ctl.controllers.device_check import DeviceCheck
from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import Controller
from gpustack_ctl.kube.events import Events
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import Obj, annotations_of, name_of
from gpustack_ctl.kube.resources import CLUSTER_QUEUES, CRDS, INSTANCE_TYPES
from gpustack_ctl.localcluster import FakeNodes
from gpustack_ctl.localcluster.assets import find_assets
from gpustack_ctl.localcluster.kueue import definitions
from gpustack_ctl.localcluster.progress import Quiet
from tests.integration.controllers.stage import Stage, a_pool, until
from tests.integration.kube.plane import plane_in

CHECK = {"name": "gpustack-node-devices"}


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """An API server with Kueue's kinds, and nobody else's AdmissionCheck."""
    assets = await find_assets(Quiet())
    with TemporaryDirectory(prefix="opn-") as directory:
        async with (
            plane_in(Path(directory), assets) as plane,
            Kube.connect(kubeconfig=plane.kubeconfig()) as kube,
        ):
            for crd in definitions(assets.manifests):
                await kube.create(CRDS, crd)
            await crd_install.ensure(kube)
            yield Stage(kube, FakeNodes(Path(plane.kubeconfig())))


def complete(queue: Obj) -> bool:
    spec = queue["spec"]
    checks = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or []
    return bool(spec.get("resourceGroups")) and CHECK in checks


async def test_an_accelerated_queue_is_held_until_the_check_is_active_and_referenced(stage: Stage) -> None:
    pool, kube, informers = a_pool(), stage.kube, Informers(stage.kube)
    sources, events = Sources.of(informers), Events(stage.kube, "test")
    every = manager.controllers(kube, sources, events, manufacturers(os.environ), "gpustack-system")
    (check,) = [each for each in every if isinstance(each, DeviceCheck)]
    seen: list[Obj] = []
    sources.cluster_queues.subscribe(lambda _, queue: seen.append(queue) if queue is not None else None)

    async def held_with_groups() -> bool:
        queue = await kube.get(CLUSTER_QUEUES, pool.queue)
        return bool(queue["spec"].get("resourceGroups")) and queue["spec"]["stopPolicy"] == "Hold"

    async def opened() -> bool:
        return bool((await kube.get(CLUSTER_QUEUES, pool.queue))["spec"]["stopPolicy"] == "None")

    async def says_pending() -> bool:
        return bool((await kube.get(INSTANCE_TYPES, pool.queue))["status"]["phase"] == "Pending")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(informers.run)
        for controller in every:
            if controller is not check:
                tasks.start_soon(_run, controller)
        await stage.add_node(pool, cards=2)
        await until("the queue has groups, and is held", held_with_groups, seconds=15)
        await until("its type waits", says_pending)
        await anyio.sleep(2)
        assert await held_with_groups(), "it is held for as long as there is no check"
        tasks.start_soon(_run, check)
        await until("with the check it opens", opened, seconds=10)
        tasks.cancel_scope.cancel()

    ours = [queue for queue in seen if name_of(queue) == pool.queue]
    assert ours[0]["spec"]["stopPolicy"] == "Hold"
    assert annotations_of(ours[0])["topology.gpustack.ai/empty-plan-hold"] == "true"
    assert all(complete(queue) for queue in ours if queue["spec"]["stopPolicy"] == "None")
    assert "topology.gpustack.ai/empty-plan-hold" not in annotations_of(ours[-1])


async def _run(controller: Controller) -> None:
    await controller.run()
