"""From nodes to queues: a pool appears by itself, stays quiet, and comes back as it was."""

from time import monotonic

import anyio

from gpustack_ctl.accel.units import M
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj, is_true
from gpustack_ctl.kube.resources import (
    CLUSTER_QUEUES,
    DEVICES,
    INSTANCE_TYPES,
    LOCAL_QUEUES,
    NODES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
)
from tests.integration.controllers.stage import Pool, Stage, a_pool, running_manager, until


async def active_queue(kube: Kube, pool: Pool) -> Obj | None:
    queue = await kube.get(CLUSTER_QUEUES, pool.queue)
    return queue if is_true(queue, "Active") else None


async def active_type(kube: Kube, pool: Pool) -> Obj | None:
    instance_type = await kube.get(INSTANCE_TYPES, pool.queue)
    return instance_type if instance_type.get("status", {}).get("phase") == "Active" else None


async def prints(kube: Kube, pool: Pool, views: str) -> bool:
    status = (await kube.get(INSTANCE_TYPES, pool.queue)).get("status", {})
    return bool(status.get("printed", {}).get("accelerator") == views)


async def test_a_pool_its_flavor_its_queue_and_its_entrances_appear_from_a_node(managed: Stage, namespace: str) -> None:
    pool, kube = a_pool(), managed.kube
    started = monotonic()
    node = await managed.add_node(pool, cards=4)
    await until("the instance type is Active", lambda: active_type(kube, pool))
    await until("its cards are seen", lambda: prints(kube, pool, "4/4 4/40 100/400 0/0"))
    assert monotonic() - started < 5
    queue = await until("the queue is Active", lambda: active_queue(kube, pool))

    (group,) = queue["spec"]["resourceGroups"]
    assert group["coveredResources"] == ["credits.gpustack.ai/nvidia"]
    assert [flavor["name"] for flavor in group["flavors"]] == [pool.flavor(4)]
    assert queue["spec"]["admissionChecksStrategy"] == {"admissionChecks": [{"name": "gpustack-node-devices"}]}
    assert queue["spec"]["stopPolicy"] == "None"
    assert "topology.gpustack.ai/empty-plan-hold" not in queue["metadata"]["annotations"]

    flavor = await kube.get(RESOURCE_FLAVORS, pool.flavor(4))
    assert flavor["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert await kube.get(TOPOLOGIES, flavor["spec"]["topologyName"])

    entrance = await until("the entrance is there", lambda: kube.get(LOCAL_QUEUES, pool.entrance, namespace))
    assert entrance["spec"]["clusterQueue"] == pool.queue
    assert entrance["metadata"]["annotations"]["schedule.gpustack.ai/queue"] == pool.queue
    status = (await kube.get(INSTANCE_TYPES, pool.queue))["status"]
    assert status["entrance"] == pool.entrance
    assert status["printed"]["cpu"] == "32/32"
    assert status["detail"]["memory"] == "24576Mi"
    assert (await kube.get(NODES, node))["metadata"]["labels"]["gpustack.ai/managed"] == "true"


async def test_no_system_namespace_has_an_entrance(managed: Stage, namespace: str) -> None:
    pool, kube = a_pool(), managed.kube
    await managed.add_node(pool, cards=1)
    await until("the entrance is there", lambda: kube.get(LOCAL_QUEUES, pool.entrance, namespace))
    await anyio.sleep(0.5)
    found = {queue["metadata"]["namespace"] for queue in await kube.list(LOCAL_QUEUES)}
    assert found.isdisjoint({"kube-system", "kube-public", "kube-node-lease", "kueue-system", "gpustack-system"})


async def test_the_counting_keys_follow_the_cards_in_capacity_and_allocatable(managed: Stage) -> None:
    pool, kube = a_pool(), managed.kube
    node = await managed.add_node(pool, cards=2)
    wanted = {
        "nvidia.com/gpu.sliced.units": 2 * M,
        "nvidia.com/gpu.sliced.memory-percentage": 200,
        "nvidia.com/gpu.sliced.memory-mib": 2 * 24576,
        "nvidia.com/gpu.sliced.cores-percentage": 2 * 128 * 100,
    }

    async def counted() -> bool:
        status = (await kube.get(NODES, node))["status"]
        return all(_amounts(status[field], wanted) == wanted for field in ("capacity", "allocatable"))

    await until("the node counts its slices", counted)
    await kube.patch(NODES, node, {"status": {"capacity": {"nvidia.com/gpu.sliced": "0"}}}, subresource="status")

    async def gone() -> bool:
        status = (await kube.get(NODES, node))["status"]
        return all(not _amounts(status[field], wanted) for field in ("capacity", "allocatable"))

    await until("without the family's own pool the keys are gone", gone)


async def test_the_views_follow_the_ledger(managed: Stage) -> None:
    pool, kube = a_pool(), managed.kube
    node = await managed.add_node(pool, cards=2)
    await until("the instance type is Active", lambda: active_type(kube, pool))
    await managed.occupy(node, whole=1, percent={1: 20})
    await until("one whole card and a 20 % slice are taken", lambda: prints(kube, pool, "0/0 0/0 80/80 0/0"))


async def test_the_fit_labels_say_what_one_card_has_left_and_are_left_alone_while_that_is_so(managed: Stage) -> None:
    pool, kube = a_pool(), managed.kube
    node = await managed.add_node(pool, cards=2)
    sliced, shared = (
        f"sliced-max-free-units.fit.gpustack.ai/{pool.akey}",
        f"shared-free-cards.fit.gpustack.ai/{pool.akey}",
    )

    async def labels(units: int, cards: int) -> bool:
        found = (await kube.get(NODES, node))["metadata"]["labels"]
        return (found.get(sliced), found.get(shared)) == (str(units), str(cards))

    await until("both cards are free", lambda: labels(M, 2))
    await managed.occupy(node, percent={0: 30, 1: 20})
    await managed.occupy(node, percent={0: 60, 1: 50})
    await until("the freest card has half left", lambda: labels(M // 2, 0))
    await anyio.sleep(3)
    settled = (await kube.get(NODES, node))["metadata"]["resourceVersion"]
    await managed.occupy(node, whole=1, percent={1: 50})
    await anyio.sleep(1)
    assert (await kube.get(NODES, node))["metadata"]["resourceVersion"] == settled


async def test_a_settled_pool_is_written_to_by_nobody(managed: Stage) -> None:
    pool, kube = a_pool(), managed.kube
    node = await managed.add_node(pool, cards=2)
    await until("the queue is Active", lambda: active_queue(kube, pool))
    await anyio.sleep(3)

    async def versions() -> dict[str, str]:
        kinds = (INSTANCE_TYPES, CLUSTER_QUEUES, RESOURCE_FLAVORS, LOCAL_QUEUES, TOPOLOGIES, DEVICES)
        found = [each for kind in kinds for each in await kube.list(kind)] + [await kube.get(NODES, node)]
        return {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in found}

    before = await versions()
    await anyio.sleep(10)
    assert await versions() == before


async def test_what_a_hand_changed_is_put_back(managed: Stage, namespace: str) -> None:
    pool, kube = a_pool(), managed.kube
    node = await managed.add_node(pool, cards=2)
    await until("the queue is Active", lambda: active_queue(kube, pool))
    await until("the entrance is there", lambda: kube.get(LOCAL_QUEUES, pool.entrance, namespace))
    quota = {"spec": {"resourceGroups": []}}
    await kube.patch(CLUSTER_QUEUES, pool.queue, quota)
    shape = {"metadata": {"labels": {f"acceleratable.feature.gpustack.ai/{pool.akey}.capacity": "99"}}}
    await kube.patch(RESOURCE_FLAVORS, pool.flavor(2), shape)
    await kube.patch(NODES, node, {"metadata": {"labels": {"gpustack.ai/managed": None}}})
    await kube.delete(LOCAL_QUEUES, pool.entrance, namespace)

    async def restored() -> bool:
        queue = await kube.get(CLUSTER_QUEUES, pool.queue)
        labels = (await kube.get(NODES, node))["metadata"]["labels"]
        flavor = await kube.get(RESOURCE_FLAVORS, pool.flavor(2))
        capacity = flavor["metadata"]["labels"][f"acceleratable.feature.gpustack.ai/{pool.akey}.capacity"]
        await kube.get(LOCAL_QUEUES, pool.entrance, namespace)
        return bool(queue["spec"].get("resourceGroups")) and "gpustack.ai/managed" in labels and capacity == "2"

    await until("everything is as it was", restored)


async def test_a_queue_stopped_by_hand_makes_its_type_inactive_and_the_switch_starts_it_again(managed: Stage) -> None:
    pool, kube = a_pool(), managed.kube
    await managed.add_node(pool, cards=1)
    await until("the queue is Active", lambda: active_queue(kube, pool))
    await kube.patch(CLUSTER_QUEUES, pool.queue, {"spec": {"stopPolicy": "Hold"}})

    async def inactive() -> bool:
        instance_type = await kube.get(INSTANCE_TYPES, pool.queue)
        return bool(instance_type["spec"].get("inactive")) and instance_type["status"]["phase"] == "Inactive"

    await until("the type says so", inactive)
    await kube.patch(INSTANCE_TYPES, pool.queue, {"spec": {"inactive": False}})
    await until("the type is Active again", lambda: active_type(kube, pool))


async def test_a_deleted_derived_type_ends_with_its_queue_and_is_written_anew(managed: Stage) -> None:
    pool, kube = a_pool(), managed.kube
    await managed.add_node(pool, cards=1)
    first = await until("the type is Active", lambda: active_type(kube, pool))
    await kube.delete(INSTANCE_TYPES, pool.queue)

    async def renewed() -> bool:
        instance_type = await active_type(kube, pool)
        return instance_type is not None and instance_type["metadata"]["uid"] != first["metadata"]["uid"]

    await until("a new type with a new queue", renewed, seconds=10)


async def test_a_restarted_manager_finds_everything_as_it_should_be(stage: Stage) -> None:
    pool, kube = a_pool(), stage.kube
    async with running_manager(kube):
        await stage.add_node(pool, cards=2)
        await until("the queue is Active", lambda: active_queue(kube, pool))
        await until("the type is Active", lambda: active_type(kube, pool))
        await anyio.sleep(1)
    before = await kube.get(CLUSTER_QUEUES, pool.queue), await kube.get(INSTANCE_TYPES, pool.queue)
    async with running_manager(kube):
        await anyio.sleep(3)
    after = await kube.get(CLUSTER_QUEUES, pool.queue), await kube.get(INSTANCE_TYPES, pool.queue)
    assert after == before


def _amounts(present: Obj, wanted: Obj) -> dict[str, int]:
    from gpustack_ctl.accel.units import quantity

    return {key: quantity(present[key]) for key in wanted if key in present}
