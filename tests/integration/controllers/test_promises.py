"""No card is promised twice, whoever dies: a manager killed among its verdicts, and another that takes the lead."""

from pathlib import Path

import anyio

from gpustack_ctl.controllers.pins import pin_of
from gpustack_ctl.controllers.workloads import holds_accelerators
from gpustack_ctl.kube.objects import is_true
from gpustack_ctl.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, WORKLOADS
from gpustack_ctl.localcluster import LocalCluster
from tests.e2e.roles import manager_of
from tests.integration.controllers.allocators import allocating
from tests.integration.controllers.stage import Stage, until
from tests.integration.controllers.test_admission_check import ask, open_pool, sliced

CARDS, ASKED = 8, 12


async def test_a_leader_killed_among_its_verdicts_has_promised_no_card_that_the_next_gives_away(
    control_plane: LocalCluster, stage: Stage, namespace: str, tmp_path: Path
) -> None:
    """Twelve slices of 60 % on eight cards: by every sum all of them fit, card by card eight do."""
    first, second = (manager_of(control_plane, tmp_path / name) for name in ("first", "second"))
    for replica in (first, second):
        replica.log.parent.mkdir()
        await replica.start()
    try:
        async with allocating(stage.kube, after=0.5) as allocators:
            pool, node = await open_pool(stage, cards=CARDS)
            async with anyio.create_task_group() as tasks:
                for number in range(ASKED):
                    tasks.start_soon(ask, stage.kube, pool, namespace, f"p{number}", sliced(60))

            async def underway() -> bool:
                return any(map(holds_accelerators, await stage.kube.list(WORKLOADS, namespace)))

            await until("the first Ready is given", underway, seconds=20)
            await first.kill()

            async def done() -> bool:
                workloads = await stage.kube.list(WORKLOADS, namespace)
                waiting = [each for each in workloads if not is_true(each, "Admitted")]
                parked = [each for each in waiting if pin_of(each) and not is_true(each, "QuotaReserved")]
                return len(workloads) == ASKED and len(waiting) == len(parked) == ASKED - CARDS

            await until("eight are let in and the others parked by the next leader", done, seconds=90)

            async def held() -> bool:
                return all(state.slices == 1 for state in allocators.ledger(node).states)

            await until("every card is held", held, seconds=20)
            assert allocators.refused == []
            assert allocators.ledger(node).overcharged == ()
    finally:
        for replica in (first, second):
            if replica.alive:
                await replica.kill()
        await stage.kube.delete(MUTATING_WEBHOOKS, "gpustack-worker-mutation")
        await stage.kube.delete(VALIDATING_WEBHOOKS, "gpustack-worker-validation")
