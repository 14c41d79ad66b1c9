"""A kubelet that restarts judges its running Pods anew, against the node as it is by then: the counting keys that the
manager wrote, and the labels. No Pod of any family may die of that, and keys that were lost are back at once.
"""

from collections.abc import AsyncIterator
from functools import partial
from time import monotonic

import anyio
import pytest

from gpustack_ctl.accel.capacity import counting_keys
from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.labels import KUEUE_QUEUE_NAME
from gpustack_ctl.accel.naming import entrance_name
from gpustack_ctl.kube.objects import Obj, name_of, uid_of
from gpustack_ctl.kube.resources import LOCAL_QUEUES, NODES, PODS
from gpustack_ctl.localcluster import LocalCluster
from gpustack_ctl.localcluster.images import BUSYBOX
from tests.e2e.faults.deployment import Deployment, deployed
from tests.e2e.roles import until

WITH_PARTITIONS = """\
cards:
- {model: NVIDIA A10G, manufacturer: nvidia, count: 3, memoryMib: 24576, cores: 9216}
- {model: NVIDIA A100-SXM4-80GB, manufacturer: nvidia, count: 1, memoryMib: 81920, cores: 6912, mig: true}
"""
A10G = entrance_name("gpustack--nvidia-a10g-linux-amd64")
A100 = entrance_name("gpustack--nvidia-a100-sxm4-80gb-linux-amd64")
FAMILIES = {
    "whole": (A10G, {"nvidia.com/gpu": "1"}),
    "share": (A10G, {"nvidia.com/gpu.shared": "1"}),
    "slice": (A10G, {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-percentage": "50"}),
    "partition": (A100, {"nvidia.com/gpu.partitioned": "1", "nvidia.com/gpu.partitioned.mig-3g.40gb": "1"}),
}
RESTORED_SECONDS = 2.0


@pytest.fixture(scope="module")
async def full(mortal: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """A node with a running Pod of every family; every test here leaves it as it was."""
    directory = tmp_path_factory.mktemp("full")
    async with deployed(mortal, directory, inventory=WITH_PARTITIONS) as deployment:
        for entrance in (A10G, A100):
            await until("the entrance is there", partial(_entrance, deployment, entrance))
        for name, (entrance, limits) in FAMILIES.items():
            await deployment.kube.create(PODS, pod(deployment, name, entrance, limits))
        await deployment.running(*FAMILIES)
        yield deployment


async def test_no_running_pod_of_any_family_dies_of_a_kubelet_restart(full: Deployment) -> None:
    before = await lives(full)
    keys = await counted(full)
    await restart_kubelet(full)
    await until("every key is there", lambda: _has(full, keys), seconds=10)
    await anyio.sleep(5)
    assert await lives(full) == before


async def test_keys_that_are_lost_are_back_before_anybody_misses_them(full: Deployment) -> None:
    keys = await counted(full)
    for value in (None, "0"):
        lost = dict.fromkeys(keys, value)
        await full.kube.patch(
            NODES, full.node.name, {"status": {"capacity": lost, "allocatable": lost}}, subresource="status"
        )
        since = monotonic()
        await until("the keys are back", lambda: _has(full, keys), seconds=10)
        assert monotonic() - since < RESTORED_SECONDS


async def test_keys_that_are_lost_while_the_kubelet_is_away_kill_nobody_when_it_returns(full: Deployment) -> None:
    keys = await counted(full)
    await full.cluster.kill(f"kubelet@{full.node.name}")
    await full.kube.patch(
        NODES,
        full.node.name,
        {"status": {field: dict.fromkeys(keys) for field in ("capacity", "allocatable")}},
        subresource="status",
    )
    before = await lives(full)
    await full.cluster.start(f"kubelet@{full.node.name}")
    await until("the keys are back", lambda: _has(full, keys), seconds=10)
    await anyio.sleep(5)
    assert await lives(full) == before


async def _entrance(deployment: Deployment, name: str) -> Obj:
    return await deployment.kube.get(LOCAL_QUEUES, name, deployment.namespace)


async def restart_kubelet(deployment: Deployment) -> None:
    await deployment.cluster.kill(f"kubelet@{deployment.node.name}")
    await deployment.cluster.start(f"kubelet@{deployment.node.name}")


async def lives(deployment: Deployment) -> dict[str, tuple[str, str, int, str]]:
    """Each Pod's identity, phase, restarts, and the container that runs."""
    found = await deployment.kube.list(PODS, deployment.namespace)
    return {name_of(each): (uid_of(each), each["status"]["phase"], *_container(each)) for each in found}


async def counted(deployment: Deployment) -> dict[str, str]:
    """The counting keys of the node; a test of their return is void without them."""
    node = await deployment.kube.get(NODES, deployment.node.name)
    keys = counting_keys(node["status"]["allocatable"], manufacturers())
    assert {"nvidia.com/gpu.sliced.units", "nvidia.com/gpu.partitioned.mig-3g.40gb"} <= keys.keys()
    return keys


async def _has(deployment: Deployment, keys: dict[str, str]) -> bool:
    status = (await deployment.kube.get(NODES, deployment.node.name))["status"]
    return all(keys.items() <= status[field].items() for field in ("capacity", "allocatable"))


def _container(pod: Obj) -> tuple[int, str]:
    (status,) = pod["status"]["containerStatuses"]
    return status["restartCount"], status["containerID"]


def pod(deployment: Deployment, name: str, entrance: str, limits: dict[str, str]) -> Obj:
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sleep", "3600"],
        "resources": {"limits": limits},
    }
    return {
        "metadata": {"name": name, "namespace": deployment.namespace, "labels": {KUEUE_QUEUE_NAME: entrance}},
        "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
    }
