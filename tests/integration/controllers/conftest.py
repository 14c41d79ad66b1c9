"""A manager against the real API server and Kueue."""

from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest

from gpustack_ctl.controllers import crd_install
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.localcluster import FakeNodes, LocalCluster
from gpustack_ctl.localcluster.assets import Assets, find_assets
from gpustack_ctl.localcluster.progress import Quiet
from tests.integration.controllers.stage import Stage, running_manager
from tests.integration.kube.plane import Plane, plane_in


@pytest.fixture
async def kube(control_plane: LocalCluster) -> AsyncIterator[Kube]:
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig)) as kube:
        await crd_install.ensure(kube)
        yield kube


@pytest.fixture
async def stage(control_plane: LocalCluster, kube: Kube) -> AsyncIterator[Stage]:
    """Nodes without a manager; they are taken away at the end."""
    nodes = FakeNodes(control_plane.kubeconfig, run_pods=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(nodes.run)
        try:
            yield (stage := Stage(kube, nodes))
        finally:
            with anyio.CancelScope(shield=True):
                await nodes.remove(*stage.added)
            tasks.cancel_scope.cancel()


@pytest.fixture
async def managed(stage: Stage) -> AsyncIterator[Stage]:
    """Nodes under a running manager."""
    async with running_manager(stage.kube):
        yield stage


@pytest.fixture
async def assets() -> Assets:
    return await find_assets(Quiet())


@pytest.fixture
async def plane(assets: Assets) -> AsyncIterator[Plane]:
    """An API server of its own that has never heard of Kueue, so that Kueue's kinds may come and go."""
    with TemporaryDirectory(prefix="mgr-") as directory:
        async with plane_in(Path(directory), assets) as plane:
            yield plane


@pytest.fixture
async def alone(plane: Plane) -> AsyncIterator[Kube]:
    async with Kube.connect(kubeconfig=plane.kubeconfig()) as kube:
        yield kube
