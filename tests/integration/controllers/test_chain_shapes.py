"""Fleets of every shape: mixed nodes, several models on one, many card counts, partitions, people's own types."""

from time import monotonic
from typing import Any

import anyio
import pytest

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.naming import entrance_name
from gpustack_ctl.accel.units import M, quantity
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj, is_true, labels_of, name_of
from gpustack_ctl.kube.resources import (
    CLUSTER_QUEUES,
    DEVICES,
    INSTANCE_TYPES,
    LOCAL_QUEUES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    SETTINGS,
    TOPOLOGIES,
)
from gpustack_ctl.localcluster import LocalCluster
from tests.integration.controllers.stage import (
    Pool,
    Stage,
    a_pool,
    devices_spec,
    pod,
    running_manager,
    until,
    workload_of,
)
from tests.integration.controllers.test_pool_appears import active_queue, active_type, prints
from tests.integration.deployment.access import audited

AWARE = "instance-type-aware-cpu-manufacturer"
DERIVED = "instance-type-derived-from-node"
MANUAL = "node-management-manual"
LEVELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.gpustack.ai/rack")
PROFILES = (("1g.10gb", 9728, 7, 1), ("3g.40gb", 40192, 2, 4))


async def flavors_of(kube: Kube, queue: str) -> list[str]:
    found = await kube.get(CLUSTER_QUEUES, queue)
    return [flavor["name"] for group in found["spec"].get("resourceGroups") or () for flavor in group["flavors"]]


async def switch(kube: Kube, name: str, value: bool) -> None:
    setting = {"metadata": {"name": name}, "spec": {"value": str(value).lower()}}
    await kube.apply(SETTINGS, setting, manager="test")


@pytest.fixture
async def settings(stage: Stage) -> Any:
    """Settings are as they were at the end."""
    yield
    for name in (AWARE, DERIVED, MANUAL):
        await stage.kube.delete(SETTINGS, name)


async def test_two_models_on_one_node_are_two_pools_that_count_their_own_cards(managed: Stage) -> None:
    one, other, kube = a_pool(), a_pool(), managed.kube
    name = f"both-{one.model}"
    groups = [group for pool, cards in ((one, 2), (other, 3)) for group in devices_spec(pool, name, cards)["groups"]]
    for group in groups:
        for card in group["accelerators"]:
            card["id"] = f"{card['id']}-{group['id']}"
    await managed.add_machine(name, {"groups": groups}, capacity={"nvidia.com/gpu": "5"})
    for pool, cards in ((one, 2), (other, 3)):
        views = f"{cards}/{cards} {cards}/{10 * cards} 100/{100 * cards} 0/0"
        await until("each pool sees its own cards", lambda pool=pool, views=views: prints(kube, pool, views))
        await until("each queue its own flavor", lambda pool=pool, cards=cards: offers(kube, pool, cards))


async def offers(kube: Kube, pool: Pool, cards: int) -> bool:
    """The queue offers the flavor of that many cards and no other; it is filled a moment after the views print."""
    return await flavors_of(kube, pool.queue) == [pool.flavor(cards)]


async def test_nodes_of_many_sizes_are_flavors_of_one_pool_smallest_first(managed: Stage) -> None:
    pool, kube = a_pool(), managed.kube
    for cards in (4, 1, 10, 4):
        await managed.add_node(pool, cards=cards)
    wanted = [(pool.flavor(1), M), (pool.flavor(4), 8 * M), (pool.flavor(10), 10 * M)]

    async def covered() -> bool:
        groups = (await kube.get(CLUSTER_QUEUES, pool.queue))["spec"].get("resourceGroups") or ()
        flavors = [flavor for group in groups for flavor in group["flavors"]]
        return [(each["name"], quantity(each["resources"][0]["nominalQuota"])) for each in flavors] == wanted

    await until("all three sizes, each with its cards' credits", covered)
    await until("all cards", lambda: prints(kube, pool, "10/19 10/190 100/1900 0/0"))


async def test_a_pool_of_partitions_lists_every_profile_also_the_full_ones_and_its_catalog_stands_still(
    managed: Stage,
) -> None:
    pool, kube = a_pool(), managed.kube
    name = f"mig-{pool.model}"
    spec = partitioned(pool, name)
    await managed.add_machine(name, spec, capacity={"nvidia.com/gpu.partitioned": "7"})
    await until("one card of partitions", lambda: prints(kube, pool, "0/0 0/0 0/0 1/7"))
    status = (await kube.get(INSTANCE_TYPES, pool.queue))["status"]
    assert status["printed"]["partitions"] == "1g.10gb=7 3g.40gb=2"
    card = spec["groups"][0]["accelerators"][0]
    full = {"id": card["id"], "index": 0, "mode": 4, "allocated": M, "remaining": 0, "allocatedSlices": 2}
    full |= {"allocatedProfiles": [{"name": "3g.40gb", "count": 2}], "remainingProfiles": []}
    groups = [{"id": pool.model, "manufacturer": "nvidia", "accelerators": [full]}]
    await kube.patch(DEVICES, name, {"status": {"groups": groups}}, subresource="status")
    await until("nothing is left", lambda: prints(kube, pool, "0/0 0/0 0/0 0/0"))
    now = (await kube.get(INSTANCE_TYPES, pool.queue))["status"]
    assert now["printed"]["partitions"] == "1g.10gb=0 3g.40gb=0"
    assert now["acceleratorPartitioned"]["allocatedProfiles"] == [{"name": "3g.40gb", "count": 2}]
    assert now["detail"] == status["detail"]
    allocatable = (await kube.get(NODES, name))["status"]["allocatable"]
    assert allocatable["nvidia.com/gpu.partitioned.mig-3g.40gb"] == "2"


async def test_a_burst_of_allocations_costs_a_node_one_patch_in_three_seconds(
    managed: Stage, control_plane: LocalCluster
) -> None:
    pool, kube = a_pool(), managed.kube
    name = f"burst-{pool.model}"
    spec = partitioned(pool, name)
    sliced = devices_spec(pool, name, 2)["groups"][0]["accelerators"][1]
    (cut,) = spec["groups"][0]["accelerators"]
    spec["groups"][0]["accelerators"].append(sliced)
    tokens = {"nvidia.com/gpu.partitioned": "7", "nvidia.com/gpu.sliced": "128"}
    await managed.add_machine(name, spec, capacity=tokens)

    async def counted() -> bool:
        node = await kube.get(NODES, name)
        fit = any(".fit.gpustack.ai/" in label for label in labels_of(node))
        return fit and "nvidia.com/gpu.partitioned.mig-1g.10gb" in node["status"]["allocatable"]

    await until("its keys and labels are there", counted)
    await anyio.sleep(3)
    since, began = await audited(control_plane), monotonic()
    for number in range(12):
        left = [{"name": "1g.10gb", "count": 7 - number % 7}, {"name": "3g.40gb", "count": 1}]
        taken = number * M // 100
        held = {"allocated": taken, "remaining": M - taken}
        rows = [
            {"id": cut["id"], "index": 0, "mode": 4, "remainingProfiles": left, **held},
            {"id": sliced["id"], "index": 1, "mode": 3, **held},
        ]
        groups = [{"id": pool.model, "manufacturer": "nvidia", "accelerators": rows}]
        await kube.patch(DEVICES, name, {"status": {"groups": groups}}, subresource="status")
        await anyio.sleep(0.2)
    end, windows = await audited(control_plane), (monotonic() - began) // 3 + 1
    log = (await anyio.Path(control_plane.log("audit")).read_bytes())[since:end].decode()
    for manager in ("gpustack-node-fit", "gpustack-node-capacity"):
        writes = [line for line in log.splitlines() if f"/nodes/{name}" in line and manager in line]
        assert 0 < len(writes) <= windows, manager


async def test_cpu_awareness_keeps_pools_apart_by_cpu(managed: Stage, settings: None) -> None:
    pool, kube = a_pool(), managed.kube
    await switch(kube, AWARE, True)
    name = f"aware-{pool.model}"
    await managed.add_machine(name, devices_spec(pool, name, 1), gkey="amd-epyc-7r32")
    aware = f"gpustack--amd-epyc-7r32--{pool.akey}-linux-amd64"
    made = await until("the pool of that CPU", lambda: kube.get(INSTANCE_TYPES, aware))
    assert made["spec"]["generalGroup"] == "amd-epyc-7r32"
    assert labels_of(made)["general.feature.gpustack.ai/amd-epyc-7r32"] == "true"
    assert await managed.gone(INSTANCE_TYPES, pool.queue)
    await switch(kube, AWARE, False)
    await until("the pool of any CPU", lambda: active_type(kube, pool))


async def test_with_derivation_off_nodes_make_flavors_and_people_make_types(managed: Stage, settings: None) -> None:
    pool, kube = a_pool(), managed.kube
    await switch(kube, DERIVED, False)
    await managed.add_node(pool, cards=1)
    await until("the flavor is there", lambda: kube.get(RESOURCE_FLAVORS, pool.flavor(1)))
    await anyio.sleep(1)
    assert await managed.gone(INSTANCE_TYPES, pool.queue)
    await switch(kube, DERIVED, True)
    await until("with it on, the type is made", lambda: active_type(kube, pool))


async def test_a_node_out_of_management_leaves_its_pool_and_comes_back(managed: Stage, settings: None) -> None:
    pool, kube = a_pool(), managed.kube
    node = await managed.add_node(pool, cards=2)
    await until("the queue is Active", lambda: active_queue(kube, pool))
    await switch(kube, MANUAL, True)
    await kube.patch(NODES, node, {"metadata": {"labels": {labels.MANAGED: None}}})
    await until("the flavor goes", lambda: managed.gone(RESOURCE_FLAVORS, pool.flavor(2)), seconds=15)

    async def bare() -> bool:
        found = await kube.get(NODES, node)
        fit = [label for label in labels_of(found) if ".fit.gpustack.ai/" in label]
        return not fit and "nvidia.com/gpu.sliced.units" not in found["status"]["capacity"]

    await until("its keys and fit labels go", bare)
    assert labels.MANAGED not in labels_of(await kube.get(DEVICES, node))
    await switch(kube, MANUAL, False)
    await until("it is back", lambda: active_queue(kube, pool), seconds=10)
    await until("with its cards", lambda: prints(kube, pool, "2/2 2/20 100/200 0/0"))


async def test_nodes_that_fill_other_levels_are_other_flavors_over_other_topologies(
    stage: Stage, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, kube = a_pool(), stage.kube
    monkeypatch.setenv("GPUSTACK_TOPOLOGY_LEVELS", ", ".join(LEVELS))
    region, zone, rack = LEVELS
    shapes = {
        "bare": {},
        "orphan": {rack: "r1"},
        "zoned": {region: "eu", zone: "a"},
        "racked": {region: "eu", zone: "a", rack: "r1"},
    }
    async with running_manager(kube):
        for shape, also in shapes.items():
            name = f"{shape}-{pool.model}"
            await stage.add_machine(name, devices_spec(pool, name, 1), capacity={"nvidia.com/gpu": "1"}, also=also)

        async def covered() -> list[str]:
            found = await flavors_of(kube, pool.queue)
            return found if len(found) == 3 else []

        flavors = await until("three shapes", covered, seconds=10)
        assert flavors[0] == pool.flavor(1), "the two that fill nothing above the hostname are one"
        levels = []
        for flavor in flavors:
            topology = await kube.get(TOPOLOGIES, (await kube.get(RESOURCE_FLAVORS, flavor))["spec"]["topologyName"])
            levels.append(tuple(level["nodeLabel"] for level in topology["spec"]["levels"]))
        host = ("kubernetes.io/hostname",)
        assert set(levels) == {host, (region, zone, *host), (region, zone, rack, *host)}
        await until("the queue is Active", lambda: active_queue(kube, pool))
        await kube.create(PODS, pod(pool, namespace, "any", {"nvidia.com/gpu": "1"}))

        async def admitted() -> bool:
            workload = await workload_of(kube, namespace, "any")
            return workload is not None and is_true(workload, "Admitted")

        await until("work is placed by them", admitted, seconds=10)


async def test_a_type_of_a_persons_own_stands_beside_the_derived_one_over_the_same_nodes(
    managed: Stage, namespace: str
) -> None:
    pool, kube = a_pool(), managed.kube
    await managed.add_node(pool, cards=2)
    derived = await until("the derived type is Active", lambda: active_type(kube, pool))
    own = f"own-{pool.model}"
    spec = {name: derived["spec"][name] for name in ("acceleratable", "acceleratorGroup", "os", "arch", "localStorage")}
    spec["unitResources"] = {"cpu": "2", "ram": "8Gi"}
    await kube.create(INSTANCE_TYPES, {"metadata": {"name": own}, "spec": spec})

    async def active() -> Obj | None:
        found = await kube.get(INSTANCE_TYPES, own)
        return found if found.get("status", {}).get("phase") == "Active" else None

    made = await until("the own type is Active", active)
    assert made["spec"]["memory"] == "24576Mi", "filled in from the flavor"
    assert labels.DERIVED_FROM_NODE not in labels_of(made)
    assert await flavors_of(kube, own) == [pool.flavor(2)]
    await until("its own entrance", lambda: kube.get(LOCAL_QUEUES, entrance_name(own), namespace))
    await kube.delete(INSTANCE_TYPES, own)
    await until("it ends with its queue", lambda: managed.gone(CLUSTER_QUEUES, own), seconds=10)
    assert await active_queue(kube, pool)


async def test_what_people_add_to_our_objects_stays_and_what_is_ours_is_put_back(managed: Stage) -> None:
    pool, kube = a_pool(), managed.kube
    await managed.add_node(pool, cards=1)
    await until("the queue is Active", lambda: active_queue(kube, pool))
    theirs = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}}
    ours = {"metadata": {"labels": {labels.RESOURCE_TYPE: "other"}}, "spec": {"queueingStrategy": "StrictFIFO"}}
    await kube.patch(CLUSTER_QUEUES, pool.queue, theirs)
    await kube.patch(CLUSTER_QUEUES, pool.queue, ours)

    async def restored() -> bool:
        found = await kube.get(CLUSTER_QUEUES, pool.queue)
        own = labels_of(found).get(labels.RESOURCE_TYPE), found["spec"]["queueingStrategy"]
        assert labels_of(found)["team"] == "a"
        return own == ("instancetypes", "BestEffortFIFO")

    await until("our part is as it was", restored)


async def test_nonsense_labels_take_a_node_out_and_nobody_down(managed: Stage) -> None:
    pool, kube = a_pool(), managed.kube
    good, bad = f"good-{pool.model}", f"bad-{pool.model}"
    count = labels.accelerator(pool.akey, "count")
    for name, also in ((bad, {count: "many", "general.feature.gpustack.ai/generic.count": "0x20"}), (good, {})):
        await managed.add_machine(name, devices_spec(pool, name, 1), also=also)
    await until("the pool has the good node", lambda: active_queue(kube, pool))
    (flavor,) = [each for each in await kube.list(RESOURCE_FLAVORS) if name_of(each) == pool.flavor(1)]
    assert labels_of(flavor)[labels.accelerator(pool.akey, "capacity")] == "1"


async def test_names_at_their_longest_still_make_a_pool(managed: Stage, namespace: str) -> None:
    pool = Pool((a_pool().model + "-" + "x" * 63)[: 54 - len("nvidia-")])
    kube = managed.kube
    await managed.add_machine(f"{a_pool().model}.{'n' * 63}"[:63], devices_spec(pool, "long", 1))
    await until("the pool is Active", lambda: active_type(kube, pool))
    entrance = await until("its entrance", lambda: kube.get(LOCAL_QUEUES, pool.entrance, namespace))
    assert entrance["metadata"]["annotations"]["schedule.gpustack.ai/queue"] == pool.queue
    assert len(pool.akey) == 54


def partitioned(pool: Pool, node: str) -> Obj:
    """One card of 80 GiB, cut."""
    profiles = [
        {
            "name": name,
            "memoryMib": mib,
            "count": count,
            "computeSlices": int(name[0]),
            "memorySlices": length,
            "placements": [{"start": start * length, "length": length} for start in range(count)],
        }
        for name, mib, count, length in PROFILES
    ]
    status = {
        "unhealthy": False,
        "logicalSliced": {"count": 0, "coresPercentageOvercommit": True},
        "physicalSliced": {"count": 7, "profiles": profiles},
    }
    spec = devices_spec(pool, node, 1)
    spec["groups"][0]["memory"] = 81920
    spec["groups"][0]["accelerators"][0]["status"] = status
    return spec
