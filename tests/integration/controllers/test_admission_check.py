"""Gate 3 on a real Kueue: what fits is admitted with a plan, what does not is held, and let go when room is made."""

import json
from collections.abc import Mapping
from time import monotonic

import anyio

from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.labels import ALLOCATED, PLANNED
from gpustack_ctl.accel.records import Entry, format_record
from gpustack_ctl.accel.units import M, percentage_units
from gpustack_ctl.controllers.pins import landed, pin_of
from gpustack_ctl.controllers.workloads import check_state
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj, annotations_of, is_true
from gpustack_ctl.kube.resources import EVENTS, INSTANCE_TYPES, PODS
from tests.integration.controllers.stage import Pool, Stage, a_pool, pod, until, workload_of


def half() -> dict[str, str]:
    return sliced(50)


def sliced(percent: int) -> dict[str, str]:
    return {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-percentage": str(percent)}


def card(pool: Pool, node: str, index: int, mode: Mode, units: int) -> Entry:
    return Entry(pool.model, "nvidia", f"GPU-{node}-{index}", index, mode, units)


async def tenant(kube: Kube, namespace: str, name: str, node: str, *entries: Entry) -> None:
    """A running Pod that holds cards by its record and asks for nothing, so that the node's totals do not show it."""
    await kube.create(
        PODS,
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "annotations": {ALLOCATED: format_record({"main": entries})},
            },
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "busybox"}]},
        },
    )


async def open_pool(stage: Stage, *, cards: int) -> tuple[Pool, str]:
    """A pool with one node that takes work and counts its slices."""
    pool = a_pool()
    node = await stage.add_node(pool, cards=cards)

    async def taking_work() -> bool:
        instance_type = await stage.kube.get(INSTANCE_TYPES, pool.queue)
        return instance_type.get("status", {}).get("phase") == "Active"

    await until("the pool is Active", taking_work)
    return pool, node


async def ask(kube: Kube, pool: Pool, namespace: str, name: str, limits: Mapping[str, str]) -> None:
    await until("the Pod is let in", lambda: kube.create(PODS, pod(pool, namespace, name, limits)))


async def parked(kube: Kube, namespace: str, name: str, *, seconds: float = 10) -> Obj:
    """The Workload of that Pod once it waits without quota under a pin that no node matches."""

    async def look() -> Obj | None:
        workload = await workload_of(kube, namespace, name)
        pin = pin_of(workload) if workload else None
        if workload is None or pin is None or is_true(workload, "QuotaReserved"):
            return None
        return workload if pin.parked and landed(workload) else None

    return await until(f"{name} is parked", look, seconds=seconds)


async def admitted(kube: Kube, namespace: str, name: str, *, seconds: float = 10) -> None:
    ends = monotonic() + seconds
    while True:
        workload = await workload_of(kube, namespace, name)
        if workload and is_true(workload, "Admitted"):
            return
        assert monotonic() < ends, f"{name} is not admitted within {seconds} s: {workload and workload.get('status')}"
        await anyio.sleep(0.05)


def said(workload: Obj) -> str:
    pin = pin_of(workload)
    assert pin is not None
    return pin.why


async def test_a_whole_card_is_admitted_and_its_pod_carries_the_plan(managed: Stage, namespace: str) -> None:
    pool, node = await open_pool(managed, cards=2)
    await ask(managed.kube, pool, namespace, "whole", {"nvidia.com/gpu": "1"})
    await admitted(managed.kube, namespace, "whole")

    async def planned() -> str | None:
        found = await managed.kube.get(PODS, "whole", namespace)
        return annotations_of(found).get(PLANNED)

    plan = await until("Kueue has copied the plan onto the Pod", planned)
    assert json.loads(plan or "") == {"v": 1, "nodes": {node: [{"main": [{"id": f"GPU-{node}-0"}]}]}}


async def test_cards_at_half_do_not_serve_whole_cards_and_the_message_says_what_was_nearest(
    managed: Stage, namespace: str
) -> None:
    pool, node = await open_pool(managed, cards=2)
    slices = [card(pool, node, index, Mode.SLICED, percentage_units(50)) for index in range(2)]
    await tenant(managed.kube, namespace, "tenant", node, *slices)
    await ask(managed.kube, pool, namespace, "whole", {"nvidia.com/gpu": "1"})
    held = await parked(managed.kube, namespace, "whole")
    assert not is_true(held, "Admitted")
    assert node in said(held) and "sliced 50%" in said(held), said(held)

    async def told() -> bool:
        events = await managed.kube.list(EVENTS, namespace)
        return ("Workload", "AcceleratorsHeld") in {(each["regarding"]["kind"], each["reason"]) for each in events}

    await until("the Workload's events tell of the hold", told)


async def test_a_held_workload_is_admitted_as_soon_as_a_card_is_free(managed: Stage, namespace: str) -> None:
    pool, node = await open_pool(managed, cards=1)
    await tenant(managed.kube, namespace, "tenant", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
    await ask(managed.kube, pool, namespace, "late", half())
    await parked(managed.kube, namespace, "late")
    await anyio.sleep(2)  # Kueue has noted the delay by now
    await managed.kube.delete(PODS, "tenant", namespace, grace_period=0)
    started = monotonic()
    await admitted(managed.kube, namespace, "late", seconds=5)
    assert monotonic() - started < 2


async def test_a_ready_holds_its_card_before_its_pod_does(managed: Stage, namespace: str) -> None:
    pool, _ = await open_pool(managed, cards=2)
    names = ("first", "second", "third")
    for name in names:
        await ask(managed.kube, pool, namespace, name, sliced(60))

    async def answers() -> list[str]:
        workloads = [await workload_of(managed.kube, namespace, name) for name in names]
        given = sorted(_answer(workload) for workload in workloads)
        return given if "" not in given else []

    assert await until("all three are answered", answers, seconds=10) == ["Ready", "Ready", "Retry"]


async def test_two_slices_of_thirty_percent_share_a_card_and_two_of_sixty_do_not(
    managed: Stage, namespace: str
) -> None:
    pool, node = await open_pool(managed, cards=2)
    await tenant(managed.kube, namespace, "tenant", node, card(pool, node, 1, Mode.EXCLUSIVE, M))
    await ask(managed.kube, pool, namespace, "small-a", sliced(30))
    await ask(managed.kube, pool, namespace, "small-b", sliced(30))
    await admitted(managed.kube, namespace, "small-a")
    await admitted(managed.kube, namespace, "small-b")
    await ask(managed.kube, pool, namespace, "large", sliced(60))
    await parked(managed.kube, namespace, "large")


def _answer(workload: Obj | None) -> str:
    if workload is None:
        return ""
    if pin_of(workload) and not is_true(workload, "QuotaReserved"):
        return "Retry"
    return "Ready" if (check_state(workload) or {}).get("state") == "Ready" else ""
