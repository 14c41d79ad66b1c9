"""A flavor that must select other nodes: Kueue forbids the change, so it is made anew under its name."""

from typing import Any

import pytest

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.features import feature_labels
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import NotFound
from gpustack_ctl.kube.resources import CLUSTER_QUEUES, RESOURCE_FLAVORS, SETTINGS
from gpustack_ctl.localcluster import FakeNode
from tests.integration.controllers.stage import Stage, a_pool, until

CPU_QUEUE = "gpustack--generic-linux-amd64"


async def cpu_flavors(kube: Kube) -> list[dict[str, Any]]:
    found = await kube.list(RESOURCE_FLAVORS, label_selector=f"{labels.ACCELERATABLE}=false")
    return [flavor for flavor in found if not flavor["metadata"].get("deletionTimestamp")]


async def set_mixed(kube: Kube, value: bool) -> None:
    setting = {
        "apiVersion": "gpustack.ai/v1",
        "kind": "Setting",
        "metadata": {"name": "instance-type-mixed-on-node"},
        "spec": {"value": str(value).lower()},
    }
    await kube.apply(SETTINGS, setting, manager="test")


@pytest.fixture
async def mixed_again(managed: Stage) -> Any:
    yield
    await managed.kube.delete(SETTINGS, "instance-type-mixed-on-node")


async def test_unmixed_nodes_with_cards_leave_the_cpu_pool(managed: Stage, mixed_again: None) -> None:
    kube, pool = managed.kube, a_pool()
    await managed.add_node(pool, cards=1)
    await managed.nodes.add([_plain_node(pool.model)])
    managed.added.append(f"plain-{pool.model}")

    async def capacity(cores: int) -> bool:
        try:
            queue = await kube.get(CLUSTER_QUEUES, CPU_QUEUE)
        except NotFound:
            return False
        quotas = [
            flavor["resources"][0]["nominalQuota"]
            for group in queue["spec"].get("resourceGroups") or ()
            for flavor in group["flavors"]
        ]
        return quotas == [str(cores)]

    await until("both nodes' cores are in the pool", lambda: capacity(64))
    await set_mixed(kube, False)
    await until("only the plain node's cores are", lambda: capacity(32), seconds=10)
    (flavor,) = await cpu_flavors(kube)
    assert flavor["spec"]["nodeLabels"][labels.ACCELERATABLE] == "false"

    await set_mixed(kube, True)
    await until("both are again", lambda: capacity(64), seconds=10)
    (flavor,) = await cpu_flavors(kube)
    assert labels.ACCELERATABLE not in flavor["spec"]["nodeLabels"]


def _plain_node(model: str) -> Any:
    features = feature_labels({}, gkey="generic", cores=32)
    return FakeNode(name=f"plain-{model}", labels=features, capacity={"cpu": "32", "memory": "64Gi", "pods": "110"})
