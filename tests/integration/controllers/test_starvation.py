"""Nobody waits for ever: a Workload that needs a whole node gets it, in spite of a stream of small ones."""

import itertools
from time import monotonic

import anyio
import pytest

from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.controllers.pins import pin_of
from gpustack_ctl.kube.objects import annotations_of, is_true, name_of
from gpustack_ctl.kube.resources import PODS
from gpustack_ctl.manager import HOLD_RESERVE_AFTER
from tests.integration.controllers.allocators import allocating
from tests.integration.controllers.stage import Pool, Stage, pod, running_manager, until, workload_of
from tests.integration.controllers.test_admission_check import ask, open_pool

CARDS, LIVES_SECONDS, RESERVE_AFTER = 8, 4.0, 5.0


async def test_a_workload_of_eight_cards_is_placed_behind_a_stream_of_small_ones(
    stage: Stage, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOLD_RESERVE_AFTER, str(RESERVE_AFTER))
    async with running_manager(stage.kube), allocating(stage.kube) as allocators, anyio.create_task_group() as tasks:
        pool, node = await open_pool(stage, cards=CARDS)
        tasks.start_soon(stream, stage, pool, namespace)

        async def busy() -> bool:
            return sum(state.free for state in allocators.ledger(node).states) == 0

        await until("small ones hold every card", busy, seconds=60)
        started = monotonic()
        await ask(stage.kube, pool, namespace, "large", {"nvidia.com/gpu.shared": str(CARDS)})
        kept = False

        async def placed() -> bool:
            nonlocal kept
            workload = await workload_of(stage.kube, namespace, "large")
            pin = pin_of(workload) if workload else None
            kept = kept or (pin is not None and pin.reserved == (node,))
            return workload is not None and is_true(workload, "Admitted")

        await until("the large one is admitted", placed, seconds=90)
        print(f"admitted after {monotonic() - started:.1f} s")
        assert kept
        assert allocators.refused == []
        tasks.cancel_scope.cancel()


async def stream(stage: Stage, pool: Pool, namespace: str) -> None:
    """Small Workloads without end: always more of them wait than there are cards, and each lives for a while."""
    held: dict[str, float] = {}
    for number in itertools.count():
        pods = await stage.kube.list(PODS, namespace)
        for each in pods:
            if name_of(each) == "large":
                continue
            if ALLOCATED in annotations_of(each):
                held.setdefault(name_of(each), monotonic())
            if monotonic() - held.get(name_of(each), monotonic()) > LIVES_SECONDS:
                await stage.kube.delete(PODS, name_of(each), namespace, grace_period=0)
        if len(pods) < 2 * CARDS:
            await stage.kube.create(PODS, pod(pool, namespace, f"small-{number}", {"nvidia.com/gpu": "1"}))
        await anyio.sleep(0.1)
