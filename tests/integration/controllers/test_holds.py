"""Holds on a real Kueue: what waits holds nothing, and is let go as soon as there is room for it."""

import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any

import anyio
import pytest

from gpustack_ctl.accel.families import Mode, manufacturers
from gpustack_ctl.accel.labels import ALLOCATED, PLACEMENT_PIN
from gpustack_ctl.accel.pins import format_pin
from gpustack_ctl.accel.units import M, percentage_units
from gpustack_ctl.controllers.pins import pin_of
from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.controllers.workloads import check_state, nodes_of
from gpustack_ctl.crds.setting import WORKLOAD_FIT_AFFINITY
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.events import Events
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import Obj, annotations_of, is_true, name_of
from gpustack_ctl.kube.resources import EVENTS, JOBS, PODS, SETTINGS, WORKLOADS, Resource
from gpustack_ctl.manager import controllers
from tests.integration.controllers.allocators import allocating
from tests.integration.controllers.stage import Pool, Stage, pod, running_manager, until, workload_of
from tests.integration.controllers.test_admission_check import (
    admitted,
    ask,
    card,
    half,
    open_pool,
    parked,
    sliced,
    tenant,
)

PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
#: How often a Workload that fits nowhere is held before it is parked; one more where the machine is slow.
ROUNDS = 2
WHOLE = {"nvidia.com/gpu": "1"}


@pytest.fixture
async def without_pins(kube: Kube) -> AsyncIterator[None]:
    """The setting that pins Workloads is off."""
    await kube.create(SETTINGS, {"metadata": {"name": WORKLOAD_FIT_AFFINITY}, "spec": {"value": "false"}})
    yield
    await kube.delete(SETTINGS, WORKLOAD_FIT_AFFINITY)


async def test_a_held_workload_gives_its_quota_back_and_stays_without_it(managed: Stage, namespace: str) -> None:
    pool, node = await open_pool(managed, cards=1)
    await tenant(managed.kube, namespace, "tenant", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
    await ask(managed.kube, pool, namespace, "late", half())
    await parked(managed.kube, namespace, "late")
    await anyio.sleep(1)  # Kueue may have been placing it as the pin landed, and has then given it back once more
    for _ in range(20):
        await anyio.sleep(0.1)
        workload = await workload_of(managed.kube, namespace, "late")
        assert workload is not None and not is_true(workload, "QuotaReserved")
    await managed.kube.delete(PODS, "tenant", namespace, grace_period=0)
    started = monotonic()
    await admitted(managed.kube, namespace, "late", seconds=5)
    assert monotonic() - started < 2


async def test_a_held_workload_goes_where_its_card_is(managed: Stage, namespace: str) -> None:
    """Kueue prefers the node with the least left; there its cards are in pieces."""
    pool, node = await open_pool(managed, cards=2)
    other = await managed.add_node(pool, cards=2)
    slices = [card(pool, node, index, Mode.SLICED, percentage_units(50)) for index in range(2)]
    await tenant(managed.kube, namespace, "tenant", node, *slices)
    for name in ("one", "two"):
        await ask(managed.kube, pool, namespace, name, WHOLE)
    for name in ("one", "two"):
        await admitted(managed.kube, namespace, name)
        assert await _node_of(managed.kube, namespace, name) == other


async def test_without_pins_a_hold_keeps_its_reservation_and_ends_as_soon_as_there_is_room(
    without_pins: None, managed: Stage, namespace: str
) -> None:
    pool, node = await open_pool(managed, cards=1)
    await tenant(managed.kube, namespace, "tenant", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
    await ask(managed.kube, pool, namespace, "late", half())
    held = await answered(managed.kube, namespace, "late", "Retry")
    assert (check_state(held) or {})["requeueAfterSeconds"] == 30
    assert pin_of(held) is None and is_true(held, "QuotaReserved")
    await anyio.sleep(2)  # Kueue has noted the delay by now
    await managed.kube.delete(PODS, "tenant", namespace, grace_period=0)
    started = monotonic()
    await admitted(managed.kube, namespace, "late", seconds=5)
    assert monotonic() - started < 2


async def test_a_node_that_is_gone_serves_nothing(without_pins: None, managed: Stage, namespace: str) -> None:
    pool, node = await open_pool(managed, cards=1)
    await tenant(managed.kube, namespace, "tenant", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
    await ask(managed.kube, pool, namespace, "late", half())
    await answered(managed.kube, namespace, "late", "Retry")
    await managed.nodes.remove(node)

    async def told() -> bool:
        return any(f"node {node} is gone" in event["note"] for event in await managed.kube.list(EVENTS, namespace))

    await until("the Workload's events tell that its node is gone", told, seconds=10)


async def test_eight_half_cards_do_not_serve_five_whole_ones(managed: Stage, namespace: str) -> None:
    pool, node = await open_pool(managed, cards=8)
    halves = [card(pool, node, index, Mode.SLICED, percentage_units(50)) for index in range(8)]
    await tenant(managed.kube, namespace, "tenant", node, *halves)
    await ask(managed.kube, pool, namespace, "five", {"nvidia.com/gpu": "5"})
    pin = pin_of(await parked(managed.kube, namespace, "five"))
    assert pin is not None and "needs 5 whole" in pin.why and pin.rounds <= ROUNDS


async def test_what_a_held_workload_gives_back_another_takes(managed: Stage, namespace: str) -> None:
    """Two cards of quota, one of them held from outside: as long as the pair had both, nobody else could have any."""
    pool, node = await open_pool(managed, cards=2)
    await tenant(managed.kube, namespace, "tenant", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
    await ask(managed.kube, pool, namespace, "pair", {"nvidia.com/gpu": "2"})
    await parked(managed.kube, namespace, "pair")
    await ask(managed.kube, pool, namespace, "one", WHOLE)
    await admitted(managed.kube, namespace, "one")


async def test_room_promised_to_workloads_that_still_start_is_no_room(managed: Stage, namespace: str) -> None:
    """No agent records here, so no label and no ledger ever shows what the first two were promised."""
    pool, node = await open_pool(managed, cards=2)
    for name in ("first", "second"):
        await ask(managed.kube, pool, namespace, name, sliced(60))
        await admitted(managed.kube, namespace, name)
    await ask(managed.kube, pool, namespace, "third", sliced(60))
    pin = pin_of(await parked(managed.kube, namespace, "third"))
    assert pin is not None and pin.rounds <= ROUNDS
    other = await managed.add_node(pool, cards=2)
    await admitted(managed.kube, namespace, "third")
    found = {name: await _node_of(managed.kube, namespace, name) for name in ("first", "second", "third")}
    assert found == {"first": node, "second": node, "third": other}


async def test_several_pods_wait_together_and_go_where_all_of_them_fit(managed: Stage, namespace: str) -> None:
    """Three Pods of 60 % on two cards: by every sum there is room, and any two of them fit."""
    pool, _ = await open_pool(managed, cards=2)
    await until("the Job is let in", lambda: managed.kube.create(JOBS, job(pool, namespace, "three", 3, sliced(60))))
    pin = pin_of(await parked(managed.kube, namespace, "three"))
    assert pin is not None and pin.rounds <= ROUNDS
    await anyio.sleep(1)
    pin = pin_of(await parked(managed.kube, namespace, "three"))
    assert pin is not None and pin.rounds <= ROUNDS
    other = await managed.add_node(pool, cards=3)
    await admitted(managed.kube, namespace, "three")
    workload = await workload_of(managed.kube, namespace, "three")
    assert workload is not None and nodes_of(workload) == {other}


async def test_a_share_of_two_cards_waits_for_a_node_that_has_two(managed: Stage, namespace: str) -> None:
    """The labels come from the published ledger, which is behind; the tokens never tell."""
    pool, node = await open_pool(managed, cards=2)
    await tenant(managed.kube, namespace, "tenant", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
    await ask(managed.kube, pool, namespace, "two", {"nvidia.com/gpu.shared": "2"})
    pin = pin_of(await parked(managed.kube, namespace, "two"))
    assert pin is not None and pin.rounds <= ROUNDS
    other = await managed.add_node(pool, cards=2)
    await admitted(managed.kube, namespace, "two")
    assert await _node_of(managed.kube, namespace, "two") == other


async def test_a_workload_that_was_never_pinned_is_parked_as_well(
    without_pins: None, managed: Stage, namespace: str
) -> None:
    pool, node = await open_pool(managed, cards=1)
    await tenant(managed.kube, namespace, "tenant", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
    await ask(managed.kube, pool, namespace, "late", half())
    await answered(managed.kube, namespace, "late", "Retry")
    await managed.kube.patch(SETTINGS, WORKLOAD_FIT_AFFINITY, {"spec": {"value": "true"}})
    pin = pin_of(await parked(managed.kube, namespace, "late", seconds=40))
    assert pin is not None and pin.rounds <= ROUNDS


async def test_pins_go_when_the_setting_goes(managed: Stage, namespace: str) -> None:
    pool, node = await open_pool(managed, cards=1)
    await tenant(managed.kube, namespace, "tenant", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
    await ask(managed.kube, pool, namespace, "late", half())
    await parked(managed.kube, namespace, "late")
    off = {"metadata": {"name": WORKLOAD_FIT_AFFINITY}, "spec": {"value": "false"}}
    await managed.kube.create(SETTINGS, off)
    try:
        held = await answered(managed.kube, namespace, "late", "Retry")
        assert pin_of(held) is None and "affinity" not in held["spec"]["podSets"][0]["template"]["spec"]
    finally:
        await managed.kube.delete(SETTINGS, WORKLOAD_FIT_AFFINITY)


async def test_what_a_user_made_inactive_stays_inactive(managed: Stage, namespace: str) -> None:
    pool, node = await open_pool(managed, cards=1)
    await tenant(managed.kube, namespace, "tenant", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
    await ask(managed.kube, pool, namespace, "late", half())
    held = await parked(managed.kube, namespace, "late")
    await managed.kube.patch(WORKLOADS, name_of(held), {"spec": {"active": False}}, namespace=namespace)
    await managed.kube.delete(PODS, "tenant", namespace, grace_period=0)
    await anyio.sleep(2)
    workload = await managed.kube.get(WORKLOADS, name_of(held), namespace)
    assert workload["spec"]["active"] is False and not is_true(workload, "QuotaReserved")
    await managed.kube.patch(WORKLOADS, name_of(held), {"spec": {"active": True}}, namespace=namespace)
    await admitted(managed.kube, namespace, "late")


async def test_an_evicted_workload_gives_its_card_up_to_the_one_that_waits(managed: Stage, namespace: str) -> None:
    """Evicted after its Ready and before any record: its Pod is gone, and with it what it was promised."""
    pool, _ = await open_pool(managed, cards=2)
    for name in ("first", "second"):
        await ask(managed.kube, pool, namespace, name, sliced(60))
        await admitted(managed.kube, namespace, name)
    await ask(managed.kube, pool, namespace, "third", sliced(60))
    await parked(managed.kube, namespace, "third")
    evicted = await workload_of(managed.kube, namespace, "first")
    assert evicted is not None
    await managed.kube.patch(WORKLOADS, name_of(evicted), {"spec": {"active": False}}, namespace=namespace)
    await admitted(managed.kube, namespace, "third")
    again = await workload_of(managed.kube, namespace, "first")
    assert again is None or not is_true(again, "QuotaReserved")


async def test_a_more_urgent_workload_evicts_and_nobody_is_promised_a_card_twice(
    managed: Stage, namespace: str, urgent: str
) -> None:
    """Preemption by Kueue itself: quota for one card, held by the lesser."""
    pool, node = await open_pool(managed, cards=1)
    async with allocating(managed.kube) as allocators:
        await ask(managed.kube, pool, namespace, "lesser", WHOLE)
        await admitted(managed.kube, namespace, "lesser")
        await managed.kube.create(PODS, pod(pool, namespace, "urgent", WHOLE, priorityClassName=urgent))
        await admitted(managed.kube, namespace, "urgent", seconds=20)

        async def held() -> bool:
            return ALLOCATED in annotations_of(await managed.kube.get(PODS, "urgent", namespace))

        await until("the urgent one has the card", held, seconds=20)
        assert allocators.refused == []
        assert allocators.ledger(node).overcharged == ()


async def test_a_manager_that_died_half_way_leaves_nobody_inactive(stage: Stage, namespace: str) -> None:
    """As the moment after a lost round leaves it: made inactive by us, and the one who did so is gone."""
    async with running_manager(stage.kube):
        pool, node = await open_pool(stage, cards=1)
        await tenant(stage.kube, namespace, "tenant", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
        await ask(stage.kube, pool, namespace, "late", half())
        held = await parked(stage.kube, namespace, "late")
    pin = pin_of(held)
    assert pin is not None
    left = {"metadata": {"annotations": {PLACEMENT_PIN: format_pin(replace(pin, toggled=True))}}}
    await stage.kube.patch(WORKLOADS, name_of(held), left | {"spec": {"active": False}}, namespace=namespace)
    async with running_manager(stage.kube):

        async def active() -> bool:
            workload = await stage.kube.get(WORKLOADS, name_of(held), namespace)
            known = pin_of(workload)
            return workload["spec"]["active"] is True and known is not None and not known.toggled

        await until("the Workload is active again", active, seconds=10)
        await parked(stage.kube, namespace, "late")
        await stage.kube.delete(PODS, "tenant", namespace, grace_period=0)
        await admitted(stage.kube, namespace, "late")


async def test_where_nobody_renders_pins_a_hold_waits_for_its_delay_and_does_not_spin(
    stage: Stage, namespace: str
) -> None:
    """The controllers alone, with no webhook: the first pin shows it, and from then on holds are timed."""
    informers, events = Informers(stage.kube), Events(stage.kube, "test")
    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        tasks.start_soon(events.run)
        for each in controllers(stage.kube, Sources.of(informers), events, manufacturers(), "gpustack-system"):
            tasks.start_soon(each.run)
        pool, node = await open_pool(stage, cards=1)
        await tenant(stage.kube, namespace, "tenant", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
        await ask(stage.kube, pool, namespace, "late", WHOLE)

        async def timed() -> Obj | None:
            workload = await workload_of(stage.kube, namespace, "late")
            said = (check_state(workload) if workload else None) or {}
            return workload if said.get("state") == "Retry" and "requeueAfterSeconds" in said else None

        held = await until("the hold asks for a delay", timed, seconds=10)
        pin = pin_of(held)
        assert pin is not None and pin.rounds <= ROUNDS
        await anyio.sleep(3)
        later = await workload_of(stage.kube, namespace, "late")
        assert later is not None and pin_of(later) == pin
        tasks.cancel_scope.cancel()


@pytest.fixture
async def urgent(kube: Kube) -> AsyncIterator[str]:
    """A priority class above the others."""
    name = f"urgent-{uuid.uuid4().hex[:6]}"
    await kube.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 1000})
    yield name
    await kube.delete(PRIORITY_CLASSES, name)


def job(pool: Pool, namespace: str, name: str, pods: int, limits: Mapping[str, str]) -> Obj:
    template = pod(pool, namespace, name, limits)
    return {
        "metadata": template["metadata"],
        "spec": {"parallelism": pods, "completions": pods, "suspend": True, "template": {"spec": template["spec"]}},
    }


async def answered(kube: Kube, namespace: str, name: str, state: str, *, seconds: float = 10) -> Obj:
    """The Workload of that Pod, once gate 3 has answered so."""

    async def look() -> Obj | None:
        workload = await workload_of(kube, namespace, name)
        found = check_state(workload) if workload else None
        return workload if found and found["state"] == state else None

    return await until(f"gate 3 says {state} to {name}", look, seconds=seconds)


async def _node_of(kube: Kube, namespace: str, name: str) -> Any:
    async def bound() -> Any:
        return (await kube.get(PODS, name, namespace))["spec"].get("nodeName")

    return await until(f"{name} is bound", bound, seconds=15)
