"""A real kubelet, and the node agent beside it."""

import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from gpustack_ctl.controllers import crd_install
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.resources import DEVICES, NAMESPACES
from gpustack_ctl.localcluster import LocalCluster
from gpustack_ctl.localcluster.node import LocalNode
from tests.e2e.agent.harness import NODE, Agent, Pods, until


@pytest.fixture(scope="session")
async def kube(control_plane: LocalCluster) -> AsyncIterator[Kube]:
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig)) as kube:
        await crd_install.ensure(kube)
        yield kube


@pytest.fixture(scope="session")
async def node(control_plane: LocalCluster) -> LocalNode:
    """A node that no other test uses."""
    return await control_plane.add_node(NODE)


@pytest.fixture
async def pods(kube: Kube, node: LocalNode) -> AsyncIterator[Pods]:
    namespace = f"test-{uuid.uuid4().hex[:8]}"
    await kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    pods = Pods(kube, namespace)
    yield pods
    await pods.clear()
    await kube.delete(NAMESPACES, namespace)


@pytest.fixture
async def agent(control_plane: LocalCluster, kube: Kube, node: LocalNode, pods: Pods) -> AsyncIterator[Agent]:
    """An agent that is not started yet; it outlives the Pods, so that they end as on a real node."""
    directory = Path(tempfile.mkdtemp(prefix="gsa-", dir="/tmp"))
    agent = Agent(node=node, kubeconfig=control_plane.kubeconfig, kube=kube, directory=directory)
    try:
        yield agent
    finally:
        with anyio.CancelScope(shield=True):
            await pods.clear()
            await agent.stop()
            await kube.delete(DEVICES, node.name)
    shutil.rmtree(directory)


@pytest.fixture
def eventually() -> Callable[..., Awaitable[Any]]:
    """Wait for something: `await eventually("what it is", look)`."""
    return until
