"""Holds on a real Kueue: what waits holds nothing, and is let go as soon as there is room for it."""

from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

import anyio
import pytest

from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.units import M, percentage_units
from gpustack_ctl.controllers.pins import pin_of
from gpustack_ctl.controllers.workloads import check_state
from gpustack_ctl.crds.setting import WORKLOAD_FIT_AFFINITY
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj, is_true
from gpustack_ctl.kube.resources import EVENTS, PODS, SETTINGS
from tests.integration.controllers.stage import Stage, until, workload_of
from tests.integration.controllers.test_admission_check import admitted, ask, card, half, open_pool, parked, tenant

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
