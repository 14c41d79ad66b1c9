"""Where a pure function claims to know Kubernetes, the real API server and Kueue's own validation are asked."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.features import AcceleratorFacts, NodeFacts
from gpustack_ctl.accel.flavors import FlavorSettings, plan_flavors
from gpustack_ctl.accel.naming import akey, gkey, group_id
from gpustack_ctl.accel.profiles import TopologyProfile, topology
from gpustack_ctl.accel.queues import MOST_FLAVORS, cluster_queue, local_queue, plan_groups
from gpustack_ctl.accel.units import INT64_MAX, QuantityError, quantity
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import ApiError
from gpustack_ctl.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
)
from gpustack_ctl.localcluster import LocalCluster

TABLE = manufacturers()
GPU = "nvidia.com/gpu"


@pytest.fixture
async def kube(control_plane: LocalCluster) -> AsyncIterator[Kube]:
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig)) as kube:
        yield kube


async def stored_as(kube: Kube, text: str) -> str | None:
    """How the API server would store this many accelerators; None when it takes no such number."""
    resources = {"limits": {GPU: text}, "requests": {GPU: text}}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b", "resources": resources}]}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "asks", "namespace": "default"},
        "spec": {"suspend": True, "template": template},
    }
    try:
        stored = await kube.create(JOBS, job, dry_run=True)
    except ApiError:
        return None
    value: str = stored["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"][GPU]
    return value


NUMBERS = (
    *("1", "+2", "0", "1Ki", "50e0", "5e1", "500e-1", "0.5k", "1.5Ki", "1000m", "2000000u", "3000000000n", "1E", "1E1"),
    *("8Pi", ".5Ki", "1.", "800000", "1600000", "0" * 400 + "7", str(INT64_MAX), " 1 "),
)
NO_NUMBERS = (
    "0.5",
    "100m",
    "1e-1",
    "1.5",
    "1n",
    "-1",
    "1Ki1",
    "1ki",
    "one",
    "0x10",
    "--1",
    "1e",
    "",
    " ",
    "1 0",
    "1\n",
)


@pytest.mark.parametrize("text", [*NUMBERS, *NO_NUMBERS])
async def test_quantities_are_read_as_the_api_server_reads_them(kube: Kube, text: str) -> None:
    stored = await stored_as(kube, text)
    try:
        number = quantity(text)
    except QuantityError:
        number = -1
    if stored is None:
        assert number < 0
    else:
        assert quantity(stored) == number


LONG = "NVIDIA A product that nobody will ever call by its whole name, rev. 2 .5-. (engineering sample)"


def facts(product: str, *, count: int = 4, os: str = "linux", arch: str = "amd64", rack: str = "rack") -> NodeFacts:
    profile = TopologyProfile((rack, "kubernetes.io/hostname")).value
    key = akey("nvidia", group_id(product, "nvidia"))
    accelerator = AcceleratorFacts(key, count, {"manufacturer": "nvidia", "product": product, "memory": "24576Mi"})
    return NodeFacts("n", os, arch, profile, gkey("amd", f"AMD {product}"), 16, accelerators=(accelerator,))


@pytest.mark.parametrize("product", ["NVIDIA A10G", "Tesla T4", LONG, "x .5 - . 6", "显卡", "." * 80])
@pytest.mark.parametrize("settings", [FlavorSettings(), FlavorSettings(mixed_on_node=False, aware_cpu=True)])
@pytest.mark.parametrize("place", [("linux", "amd64"), ("o" * 63, "a" * 63)])
async def test_what_is_planned_for_any_product_is_taken(
    kube: Kube, product: str, settings: FlavorSettings, place: tuple[str, str]
) -> None:
    plan = plan_flavors([facts(product, os=place[0], arch=place[1])], settings)
    assert plan.flavors
    for flavor in plan.flavors.values():
        await kube.create(RESOURCE_FLAVORS, flavor, dry_run=True)
        node = {"apiVersion": "v1", "kind": "Node"}
        await kube.create(
            NODES, {**node, "metadata": {"name": "n", "labels": flavor["spec"]["nodeLabels"]}}, dry_run=True
        )
    for name, instance_type in plan.instance_types.items():
        await kube.create(CLUSTER_QUEUES, cluster_queue(instance_type, aware_cpu=settings.aware_cpu), dry_run=True)
        await kube.create(LOCAL_QUEUES, local_queue(name, "default"), dry_run=True)


async def test_a_queue_takes_as_many_flavors_as_we_say_and_no_more(kube: Kube) -> None:
    nodes = [facts("NVIDIA A10G", count=count) for count in range(1, MOST_FLAVORS + 1)]
    plan = plan_flavors(nodes, FlavorSettings(mixed_on_node=False))
    (instance_type,) = plan.instance_types.values()
    groups = plan_groups(plan.flavors.values(), manufacturer="nvidia", table=TABLE).groups
    queue: dict[str, Any] = cluster_queue(instance_type, aware_cpu=False)
    queue["spec"]["resourceGroups"] = list(groups)
    await kube.create(CLUSTER_QUEUES, queue, dry_run=True)
    flavors = groups[0]["flavors"]
    queue["spec"]["resourceGroups"] = [{**groups[0], "flavors": [*flavors, {**flavors[0], "name": "one-more"}]}]
    with pytest.raises(ApiError, match="64"):
        await kube.create(CLUSTER_QUEUES, queue, dry_run=True)


async def test_a_topology_of_every_level_is_taken(kube: Kube) -> None:
    levels = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.gpustack.ai/rack")
    await kube.create(TOPOLOGIES, topology(TopologyProfile((*levels, "kubernetes.io/hostname"))), dry_run=True)
