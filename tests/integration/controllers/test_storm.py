"""A storm on a real Kueue: many more Workloads than cards, of all sizes, and in the end every card is well used."""

import random
from collections.abc import Iterator
from time import monotonic

from gpustack_ctl.accel.cards import NodeCards
from gpustack_ctl.accel.feasibility import Demand, Plan, fit
from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.accel.requests import read_pod
from gpustack_ctl.kube.objects import Obj, annotations_of, is_true, key_of, name_of
from gpustack_ctl.kube.resources import INSTANCE_TYPES, PODS, WORKLOADS
from tests.integration.controllers.allocators import TABLE, Allocators, allocating
from tests.integration.controllers.stage import Stage, a_pool, until
from tests.integration.controllers.test_admission_check import ask, sliced

NODES, CARDS, WORKLOADS_ASKED = 10, 4, 200
WHOLE, PAIR = {"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}
SHARED = {"nvidia.com/gpu.shared": "2"}


async def test_a_storm_leaves_no_card_oversubscribed_and_none_idle_that_a_waiting_workload_fits(
    managed: Stage, namespace: str
) -> None:
    pool = a_pool()
    for _ in range(NODES):
        await managed.add_node(pool, cards=CARDS)

    async def taking_work() -> bool:
        found = await managed.kube.get(INSTANCE_TYPES, pool.queue)
        return (found.get("status") or {}).get("phase") == "Active"

    await until("the pool is Active", taking_work, seconds=20)
    async with allocating(managed.kube) as allocators:
        chance = random.Random(5)
        sizes = [WHOLE, PAIR, SHARED, sliced(50), sliced(30), sliced(70)]
        for number in range(WORKLOADS_ASKED):
            await ask(managed.kube, pool, namespace, f"w{number}", chance.choice(sizes))
        await settled(managed, allocators, namespace)
        running = [pod for pod in await managed.kube.list(PODS, namespace) if ALLOCATED in annotations_of(pod)]
        for pod in chance.sample(running, len(running) // 3):
            await managed.kube.delete(PODS, name_of(pod), namespace, grace_period=0)
        await settled(managed, allocators, namespace)
        assert allocators.refused == []
        for node in managed.added:
            assert allocators.ledger(node).overcharged == ()


async def settled(stage: Stage, allocators: Allocators, namespace: str) -> None:
    """Everybody who was let in has cards, and nobody who waits would find some."""
    started = monotonic()

    async def quiet() -> bool:
        workloads = await stage.kube.list(WORKLOADS, namespace)
        waiting = [each for each in workloads if not is_true(each, "Admitted") and not is_true(each, "Finished")]
        if any(is_true(each, "QuotaReserved") for each in waiting):
            return False
        pods = await stage.kube.list(PODS, namespace)
        bound = sum(ALLOCATED in annotations_of(pod) for pod in pods)
        admitted = sum(is_true(each, "Admitted") and not is_true(each, "Finished") for each in workloads)
        return bound == admitted and not any(fitting(stage, allocators, waiting))

    await until("the storm is over", quiet, seconds=120)
    print(f"settled after {monotonic() - started:.1f} s")


def fitting(stage: Stage, allocators: Allocators, waiting: list[Obj]) -> Iterator[str]:
    """Those who wait though a node could take them."""
    nodes: dict[str, NodeCards] = {node: allocators.ledger(node).on(node) for node in stage.added}
    for workload in waiting:
        (pod_set,) = workload["spec"]["podSets"]
        pod = read_pod(pod_set["template"]["spec"], table=TABLE, pool=None)
        akey = next(state.card.akey for state in next(iter(nodes.values())).states)
        if isinstance(fit([Demand("main", pod, 1, akey)], nodes), Plan):
            yield key_of(workload)
