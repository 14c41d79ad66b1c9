"""Pools that lose what they stand on: their last node, their switch, their type; and what running work sees of it."""

import anyio
import pytest

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj, annotations_of, condition, is_true, name_of
from gpustack_ctl.kube.resources import (
    CLUSTER_QUEUES,
    DEVICES,
    EVENTS,
    INSTANCE_TYPES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
)
from tests.integration.controllers.stage import Pool, Stage, a_pool, pod, until, workload_of
from tests.integration.controllers.test_pool_appears import active_queue, active_type

WHOLE = {"nvidia.com/gpu": "1"}
SAVED = "schedule.gpustack.ai/saved-stop-policy"


async def stopped(kube: Kube, pool: Pool, *, groups: bool) -> Obj | None:
    """The queue, once it is stopped, with or without its resource groups."""
    queue = await kube.get(CLUSTER_QUEUES, pool.queue)
    held = queue["spec"].get("stopPolicy") != "None" and bool(queue["spec"].get("resourceGroups")) == groups
    return queue if held else None


async def phase(kube: Kube, pool: Pool, *wanted: str) -> bool:
    return (await kube.get(INSTANCE_TYPES, pool.queue)).get("status", {}).get("phase") in wanted


async def admitted(kube: Kube, namespace: str, name: str) -> bool:
    workload = await workload_of(kube, namespace, name)
    return workload is not None and is_true(workload, "Admitted")


async def test_a_pool_without_nodes_drains_is_emptied_admits_nothing_and_comes_back(
    managed: Stage, namespace: str
) -> None:
    pool, kube = a_pool(), managed.kube
    node = await managed.add_node(pool, cards=2)
    await until("the queue is Active", lambda: active_queue(kube, pool))
    await kube.create(PODS, pod(pool, namespace, "running", WHOLE))
    await until("the Pod's Workload is admitted", lambda: admitted(kube, namespace, "running"), seconds=10)

    await managed.nodes.remove(node)
    await until("the flavor goes", lambda: managed.gone(RESOURCE_FLAVORS, pool.flavor(2)), seconds=20)
    emptied = await until("the queue is stopped and empty", lambda: stopped(kube, pool, groups=False), seconds=20)
    assert annotations_of(emptied)[SAVED] == "None"
    assert not emptied["status"].get("reservingWorkloads")
    await until("the type says so", lambda: phase(kube, pool, "Inactive", "Pending"))

    await kube.create(PODS, pod(pool, namespace, "late", WHOLE))
    workload = await until("the late Pod has a Workload", lambda: workload_of(kube, namespace, "late"))
    await anyio.sleep(2)
    workload = await workload_of(kube, namespace, "late")
    assert workload is not None and not is_true(workload, "QuotaReserved")

    await managed.add_node(pool, cards=2)
    queue = await until("the queue is Active again", lambda: active_queue(kube, pool), seconds=10)
    assert SAVED not in annotations_of(queue)
    assert queue["spec"]["stopPolicy"] == "None"
    await until("the late Pod is admitted", lambda: admitted(kube, namespace, "late"), seconds=10)


async def test_a_pool_that_was_switched_off_is_still_off_when_its_nodes_return(managed: Stage) -> None:
    pool, kube = a_pool(), managed.kube
    node = await managed.add_node(pool, cards=1)
    await until("the type is Active", lambda: active_type(kube, pool))
    await kube.patch(INSTANCE_TYPES, pool.queue, {"spec": {"inactive": True}})
    await until("the type is off", lambda: phase(kube, pool, "Inactive"))
    await managed.nodes.remove(node)
    await until("the queue is empty", lambda: stopped(kube, pool, groups=False), seconds=20)
    await managed.add_node(pool, cards=1)
    await until("the groups are back and it is held", lambda: stopped(kube, pool, groups=True), seconds=10)
    assert (await kube.get(CLUSTER_QUEUES, pool.queue))["spec"]["stopPolicy"] == "Hold"


async def test_switching_a_pool_off_leaves_running_work_alone(managed: Stage, namespace: str) -> None:
    pool, kube = a_pool(), managed.kube
    await managed.add_node(pool, cards=2)
    await until("the queue is Active", lambda: active_queue(kube, pool))
    await kube.create(PODS, pod(pool, namespace, "running", WHOLE))
    await until("the Pod is admitted", lambda: admitted(kube, namespace, "running"), seconds=10)
    await kube.patch(INSTANCE_TYPES, pool.queue, {"spec": {"inactive": True}})
    await until("the type is off", lambda: phase(kube, pool, "Inactive"))
    await anyio.sleep(1)
    assert await admitted(kube, namespace, "running")
    await kube.patch(INSTANCE_TYPES, pool.queue, {"spec": {"inactive": False}})
    await until("the type is on", lambda: active_type(kube, pool))


async def test_a_type_that_is_deleted_evicts_its_work_and_takes_its_queue_along(managed: Stage, namespace: str) -> None:
    pool, kube = a_pool(), managed.kube
    await managed.add_node(pool, cards=1)
    first = await until("the type is Active", lambda: active_type(kube, pool))
    await until("the queue is Active", lambda: active_queue(kube, pool))
    await kube.create(PODS, pod(pool, namespace, "running", WHOLE))
    await until("the Pod is admitted", lambda: admitted(kube, namespace, "running"), seconds=10)
    await kube.delete(INSTANCE_TYPES, pool.queue)

    async def evicted() -> bool:
        workload = await workload_of(kube, namespace, "running")
        return workload is None or not is_true(workload, "Admitted")

    await until("its work is evicted", evicted, seconds=10)

    async def renewed() -> bool:
        found = await active_type(kube, pool)
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    await until("its nodes are still there, so a new type is made", renewed, seconds=20)


async def test_a_label_that_is_gone_for_a_moment_costs_nothing(managed: Stage, namespace: str) -> None:
    pool, kube = a_pool(), managed.kube
    node = await managed.add_node(pool, cards=1)
    await until("the queue is Active", lambda: active_queue(kube, pool))
    await kube.create(PODS, pod(pool, namespace, "running", WHOLE))
    await until("the Pod is admitted", lambda: admitted(kube, namespace, "running"), seconds=10)
    flavor = await kube.get(RESOURCE_FLAVORS, pool.flavor(1))
    await kube.patch(NODES, node, {"metadata": {"labels": {"gpustack.ai/managed": None}}})

    async def back() -> bool:
        return "gpustack.ai/managed" in (await kube.get(NODES, node))["metadata"]["labels"]

    await until("the label is back", back)
    await anyio.sleep(4)
    assert (await kube.get(RESOURCE_FLAVORS, pool.flavor(1)))["metadata"]["uid"] == flavor["metadata"]["uid"]
    assert await admitted(kube, namespace, "running")


async def test_a_node_that_comes_back_with_another_model_changes_pools(managed: Stage) -> None:
    before, after, kube = a_pool(), a_pool(), managed.kube
    node = await managed.add_node(before, cards=2, name=f"reborn-{before.model}")
    await until("the first pool is Active", lambda: active_type(kube, before))
    await managed.nodes.remove(node)
    await until("the ledger goes with its node", lambda: managed.gone(DEVICES, node), seconds=10)
    managed.added.remove(node)
    await managed.add_node(after, cards=4, name=node)
    await until("the new pool is Active", lambda: active_type(kube, after), seconds=10)
    await until("the old flavor goes", lambda: managed.gone(RESOURCE_FLAVORS, before.flavor(2)), seconds=20)
    await until("the old pool is emptied", lambda: stopped(kube, before, groups=False), seconds=20)


async def test_a_plan_of_more_flavors_than_a_queue_takes_is_refused_whole(managed: Stage) -> None:
    pool, kube = a_pool(), managed.kube
    async with anyio.create_task_group() as tasks:
        for cards in range(1, 65):
            tasks.start_soon(lambda cards=cards: managed.add_node(pool, cards=cards))

    async def covers(flavors: int) -> bool:
        groups = (await kube.get(CLUSTER_QUEUES, pool.queue))["spec"].get("resourceGroups") or []
        return [len(group["flavors"]) for group in groups] == [flavors]

    await until("all 64 are covered", lambda: covers(64), seconds=30)
    extra = await managed.add_node(pool, cards=65)

    async def refused() -> bool:
        found = condition(await kube.get(INSTANCE_TYPES, pool.queue), "TopologyReady") or {}
        return found.get("status") == "False" and "65 flavors" in found["message"]

    await until("the type says why its plan is refused", refused, seconds=10)
    assert await covers(64), "what works goes on working"

    async def told() -> bool:
        events = await kube.list(EVENTS, "default")
        return any(event["reason"] == "PlanRefused" and event["regarding"]["name"] == pool.queue for event in events)

    await until("an event tells it, too", told)
    await managed.nodes.remove(extra)

    async def accepted() -> bool:
        return is_true(await kube.get(INSTANCE_TYPES, pool.queue), "TopologyReady")

    await until("the plan fits again", accepted, seconds=20)


@pytest.mark.parametrize("level", ["topology.kubernetes.io/region"])
async def test_the_topology_of_the_last_flavor_ends_with_it(managed: Stage, level: str) -> None:
    pool, kube = a_pool(), managed.kube
    await managed.add_node(pool, cards=1)
    flavor = await until("the flavor is there", lambda: kube.get(RESOURCE_FLAVORS, pool.flavor(1)))
    needed = flavor["spec"]["topologyName"]
    unneeded = {"metadata": {"name": "gpustack-fnv64-00000000deadbeef"}, "spec": {"levels": [{"nodeLabel": level}]}}
    foreign = {"metadata": {"name": f"foreign-{pool.model}"}, "spec": {"levels": [{"nodeLabel": level}]}}
    for topology in (unneeded, foreign):
        await kube.create(TOPOLOGIES, topology)
    await until("nobody needs it", lambda: managed.gone(TOPOLOGIES, unneeded["metadata"]["name"]))
    left = {name_of(topology) for topology in await kube.list(TOPOLOGIES)}
    assert {needed, name_of(foreign)} <= left
    await kube.delete(TOPOLOGIES, name_of(foreign))
