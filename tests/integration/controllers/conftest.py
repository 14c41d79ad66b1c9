"""A manager against the real API server and Kueue."""

from collections.abc import AsyncIterator

import anyio
import pytest

from gpustack_ctl.controllers import crd_install
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.localcluster import FakeNodes, LocalCluster
from tests.integration.controllers.stage import Stage, running_manager


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
