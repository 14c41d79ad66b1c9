"""Fixtures every test may use: one real control plane for the whole session, and a namespace for each test."""

import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.kueue_config import kueue_configuration
from gpustack_ctl.localcluster import ClusterSpec, LocalCluster, local_cluster
from gpustack_ctl.localcluster.api import connect


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
async def control_plane() -> AsyncIterator[LocalCluster]:
    """etcd, Kubernetes' control plane and Kueue; no node. A missing program is an error: nothing here is skipped."""
    directory = Path(tempfile.mkdtemp(prefix="gsl-", dir="/tmp"))  # short, for the sockets below it
    spec = ClusterSpec(
        directory=directory,
        kubelet=False,
        kueue=kueue_configuration(manufacturers()),
        audit=True,
        die_with_parent=True,
    )
    async with local_cluster(spec) as cluster:
        yield cluster
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
async def cluster(control_plane: LocalCluster) -> LocalCluster:
    """The same control plane with a real kubelet, added for the first test that asks for one."""
    await control_plane.add_node(control_plane.spec.node_name)
    return control_plane


@pytest.fixture
async def namespace(control_plane: LocalCluster) -> AsyncIterator[str]:
    """A namespace that no other test knows."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    async with connect(control_plane.kubeconfig) as api:
        await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        yield name
        await api.delete(f"/api/v1/namespaces/{name}")
