"""A work queue hands out each key once at a time, loses none, and keeps its appointments."""

import anyio
import pytest

from gpustack_ctl.kube.queue import QueueClosedError, WorkQueue


@pytest.fixture
def queue() -> WorkQueue:
    return WorkQueue("test", retry_first=0.02, retry_cap=0.08)


async def take(queue: WorkQueue, *, within: float = 1) -> str | None:
    with anyio.move_on_after(within):
        return await queue.get()
    return None


async def test_keys_come_in_the_order_they_were_added(queue: WorkQueue) -> None:
    for key in "cab":
        queue.add(key)
    assert [await take(queue) for _ in range(3)] == ["c", "a", "b"]


async def test_a_key_added_ten_times_is_one_look(queue: WorkQueue) -> None:
    for _ in range(10):
        queue.add("a")
    assert await take(queue) == "a"
    queue.done("a")
    assert await take(queue, within=0.02) is None


async def test_a_key_in_hand_is_not_given_to_another_worker(queue: WorkQueue) -> None:
    queue.add("a")
    assert await take(queue) == "a"
    queue.add("a")
    assert await take(queue, within=0.02) is None
    queue.done("a")
    assert await take(queue) == "a"


async def test_a_key_not_added_meanwhile_is_not_looked_at_again(queue: WorkQueue) -> None:
    queue.add("a")
    await take(queue)
    queue.done("a")
    assert await take(queue, within=0.02) is None


async def test_a_worker_that_waits_gets_the_next_key(queue: WorkQueue) -> None:
    got: list[str | None] = []

    async def work() -> None:
        got.append(await take(queue))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(work)
        await anyio.sleep(0.01)
        for key in "abc":
            queue.add(key)
    assert sorted(filter(None, got)) == ["a", "b", "c"]


async def test_a_worker_that_gave_up_waiting_takes_no_key_with_it(queue: WorkQueue) -> None:
    assert await take(queue, within=0.01) is None
    queue.add("a")
    assert await take(queue) == "a"


async def test_a_delayed_key_comes_when_it_is_due(queue: WorkQueue) -> None:
    started = anyio.current_time()
    queue.add_after("a", 0.05)
    assert await take(queue) == "a"
    assert 0.05 <= anyio.current_time() - started < 0.5


@pytest.mark.parametrize("delays", [(0.05, 30), (30, 0.05)])
async def test_of_two_appointments_the_earlier_holds_and_there_is_one_look(
    queue: WorkQueue, delays: tuple[float, float]
) -> None:
    for delay in delays:
        queue.add_after("a", delay)
    assert await take(queue) == "a"
    queue.done("a")
    assert await take(queue, within=0.05) is None


async def test_an_appointment_is_kept_although_the_key_came_up_before(queue: WorkQueue) -> None:
    queue.add_after("a", 0.05)
    queue.add("a")
    assert await take(queue) == "a"
    queue.done("a")
    assert await take(queue) == "a"


async def test_keys_that_are_due_come_in_the_order_of_their_appointments(queue: WorkQueue) -> None:
    for key, delay in {"late": 0.06, "early": 0.02, "middle": 0.04}.items():
        queue.add_after(key, delay)
    assert [await take(queue) for _ in range(3)] == ["early", "middle", "late"]


async def test_each_failure_of_a_key_waits_longer_up_to_the_cap_and_others_do_not(queue: WorkQueue) -> None:
    waits = [queue.add_backoff("a") for _ in range(5)]
    for wait, most in zip(waits, (0.02, 0.04, 0.08, 0.08, 0.08), strict=True):
        assert most / 2 <= wait <= most
    assert queue.add_backoff("b") <= 0.02


async def test_a_key_that_is_well_again_starts_over(queue: WorkQueue) -> None:
    for _ in range(5):
        queue.add_backoff("a")
    queue.forget("a")
    assert queue.add_backoff("a") <= 0.02


async def test_a_closed_queue_tells_every_worker_and_hands_out_no_more(queue: WorkQueue) -> None:
    ended = 0

    async def work() -> None:
        nonlocal ended
        with pytest.raises(QueueClosedError):
            await queue.get()
        ended += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(work)
        await anyio.sleep(0.01)
        queue.close()
    queue.add("a")
    queue.add_after("b", 0.001)
    await anyio.sleep(0.01)
    with pytest.raises(QueueClosedError):
        await queue.get()
    assert ended == 3


async def test_ten_thousand_keys_and_many_workers_lose_nothing_and_never_meet(queue: WorkQueue) -> None:
    in_hand: set[str] = set()
    looks: dict[str, int] = {}

    async def work() -> None:
        while (key := await take(queue, within=0.2)) is not None:
            assert key not in in_hand
            in_hand.add(key)
            await anyio.lowlevel.checkpoint()
            looks[key] = looks.get(key, 0) + 1
            in_hand.discard(key)
            queue.done(key)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(work)
        for at in range(10_000):
            queue.add(f"k{at % 2_500}")
            if at % 100 == 0:
                await anyio.lowlevel.checkpoint()
    assert len(looks) == 2_500
