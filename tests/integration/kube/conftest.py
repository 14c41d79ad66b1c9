"""One API server for the tests of this folder, and a bad line to it for each test that wants one."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.resources import NAMESPACES
from gpustack_ctl.localcluster.assets import find_assets
from gpustack_ctl.localcluster.progress import Quiet
from tests.integration.kube.plane import Plane, plane_in
from tests.integration.kube.proxy import Proxy, proxy_to

_number = count(1)


@pytest.fixture(scope="session")
async def plane() -> AsyncIterator[Plane]:
    assets = await find_assets(Quiet())
    with TemporaryDirectory(prefix="kube-") as directory:
        async with plane_in(Path(directory), assets) as plane:
            yield plane


@pytest.fixture
async def kube(plane: Plane) -> AsyncIterator[Kube]:
    """The administrator, on a straight line."""
    async with Kube.connect(kubeconfig=plane.kubeconfig()) as kube:
        yield kube


@pytest.fixture
async def proxy(plane: Plane) -> AsyncIterator[Proxy]:
    async with proxy_to(plane) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy: Proxy) -> AsyncIterator[Kube]:
    """The administrator, at the other end of the bad line."""
    async with Kube.connect(kubeconfig=proxy.kubeconfig) as kube:
        yield kube


@pytest.fixture
async def namespace(kube: Kube) -> str:
    name = f"test-{next(_number)}"
    await kube.create(NAMESPACES, {"metadata": {"name": name}})
    return name
