"""Fake nodes do what others read of a kubelet."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest

from gpustack_ctl.localcluster import FakeNode, FakeNodes, LocalCluster, polling
from gpustack_ctl.localcluster.api import Api, connect

NODE = "/api/v1/nodes/fake-test"


@pytest.fixture
async def api(control_plane: LocalCluster) -> AsyncIterator[Api]:
    async with connect(control_plane.kubeconfig) as api:
        yield api


@pytest.fixture
async def fake_node(control_plane: LocalCluster) -> AsyncIterator[FakeNodes]:
    nodes = FakeNodes(control_plane.kubeconfig, lease_seconds=1)
    await nodes.add([FakeNode(name="fake-test", labels={"rack": "a"}, capacity={"cpu": "8", "pods": "10"})])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(nodes.run)
        yield nodes
        await nodes.remove("fake-test")
        tasks.cancel_scope.cancel()


async def until(read: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool]) -> None:
    async def held() -> bool:
        return holds(await read())

    assert await polling.until(held, seconds=15), await read()


async def test_a_fake_node_is_ready_and_stays_so_while_its_lease_is_renewed(fake_node: FakeNodes, api: Api) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/fake-test"
    before = (await api.get(lease))["spec"]["renewTime"]
    await until(lambda: api.get(lease), lambda found: found["spec"]["renewTime"] > before)
    node = await api.get(NODE)
    assert [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"] == ["True"]
    assert not node["spec"].get("taints")
    assert node["metadata"]["labels"]["rack"] == "a"


async def test_allocatable_follows_capacity_both_ways(fake_node: FakeNodes, api: Api) -> None:
    key = "nvidia.com/gpu.sliced.units"
    await api.patch(f"{NODE}/status", {"status": {"capacity": {key: "4000"}}})
    await until(lambda: api.get(NODE), lambda node: node["status"]["allocatable"].get(key) == "4k")
    await api.patch(f"{NODE}/status", {"status": {"capacity": {key: None}}})
    await until(lambda: api.get(NODE), lambda node: key not in node["status"]["allocatable"])


async def test_a_bound_pod_runs_and_a_deleted_one_goes(fake_node: FakeNodes, api: Api, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"nodeSelector": {"rack": "a"}, "containers": [{"name": "main", "image": "gpustack.local/busybox:1"}]}
    await api.create(pods, {"metadata": {"name": "bound"}, "spec": spec})
    await until(lambda: api.get(f"{pods}/bound"), lambda pod: pod["status"]["phase"] == "Running")
    await api.delete(f"{pods}/bound")
    await until(lambda: api.get(pods), lambda listing: not listing["items"])
