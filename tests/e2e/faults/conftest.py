"""A cluster whose programs may be killed, for this folder alone, and both roles on it for each test."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.kueue_config import kueue_configuration
from gpustack_ctl.localcluster import ClusterSpec, LocalCluster, local_cluster
from tests.e2e.faults.deployment import Deployment, deployed


@pytest.fixture(scope="session")
async def mortal() -> AsyncIterator[LocalCluster]:
    directory = Path(tempfile.mkdtemp(prefix="gsf-", dir="/tmp"))  # short, for the sockets below it
    spec = ClusterSpec(directory=directory, kueue=kueue_configuration(manufacturers()), die_with_parent=True)
    async with local_cluster(spec) as cluster:
        yield cluster
    shutil.rmtree(directory)


@pytest.fixture
async def deployment(mortal: LocalCluster, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with deployed(mortal, tmp_path) as deployment:
        yield deployment
