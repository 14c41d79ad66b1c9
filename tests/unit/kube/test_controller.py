"""A controller looks at what changed, repeats what failed, and ends with the key in hand finished."""

from collections.abc import Awaitable, Callable, Iterable

import anyio
import pytest
from structlog.testing import capture_logs

from gpustack_ctl.kube import controller as module
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, again, changes
from gpustack_ctl.kube.errors import Conflict, Invalid
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, labels_of
from gpustack_ctl.kube.reflector import Selection
from gpustack_ctl.kube.resources import PODS


def pod(name: str, version: int, **labels: str) -> Obj:
    return {"metadata": {"namespace": "ns", "name": name, "resourceVersion": str(version), "labels": labels}}


def synced(*objects: Obj) -> Informer:
    """An informer's copy as a list leaves it; there is no watch behind it."""
    informer = Informer(Selection(PODS))
    informer.replace(objects, max((int(obj["metadata"]["resourceVersion"]) for obj in objects), default=0))
    informer._listed.set()
    return informer


class Recorder(Controller):
    name = "recorder"

    def __init__(self, pods: Informer, *, do: Callable[[str], Awaitable[Result]] | None = None) -> None:
        self._pods = pods
        self._do = do
        self.looks: list[str] = []

    def wakes(self) -> Iterable[Wake]:
        yield changes(self._pods)

    async def reconcile(self, key: str) -> Result:
        self.looks.append(key)
        return await self._do(key) if self._do is not None else DONE


async def looks(controller: Recorder, count: int) -> None:
    with anyio.fail_after(5):
        while len(controller.looks) < count:  # noqa: ASYNC110 — it waits for the code under test
            await anyio.sleep(0.005)


async def test_what_is_there_is_looked_at_first_and_then_what_changes() -> None:
    pods = synced(pod("a", 1), pod("b", 2))
    controller = Recorder(pods)
    async with anyio.create_task_group() as tasks:
        await tasks.start(controller.run)
        await looks(controller, 2)
        pods.put(pod("c", 3))
        pods.remove(pod("a", 4))
        await looks(controller, 4)
        tasks.cancel_scope.cancel()
    assert controller.looks == ["ns/a", "ns/b", "ns/c", "ns/a"]


async def test_nothing_is_looked_at_before_every_informer_is_complete() -> None:
    pods = Informer(Selection(PODS))
    controller = Recorder(pods)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(controller.run)
        pods.put(pod("a", 1))
        await anyio.sleep(0.02)
        assert controller.looks == []
        pods._listed.set()
        await looks(controller, 1)
        tasks.cancel_scope.cancel()


async def test_a_change_may_wake_other_keys_than_its_own_before_and_after() -> None:
    pods = synced()
    wake = changes(pods, key=lambda obj: [labels_of(obj)["node"], "all"])
    assert [*wake.keys(pod("a", 1, node="n1"), pod("a", 2, node="n2"))] == ["n1", "all", "n2", "all"]
    assert [*wake.keys(None, pod("a", 1, node="n1"))] == ["n1", "all"]


async def test_a_change_that_does_not_matter_wakes_nothing() -> None:
    wake = changes(synced(), when=lambda old, new: old is None)
    assert [*wake.keys(None, pod("a", 1))] == ["ns/a"]
    assert [*wake.keys(pod("a", 1), pod("a", 2))] == []


async def test_a_look_may_ask_for_another_one_later() -> None:
    async def once_more(_: str) -> Result:
        return again(0.03) if len(controller.looks) == 1 else DONE

    controller = Recorder(synced(pod("a", 1)), do=once_more)
    async with anyio.create_task_group() as tasks:
        started = anyio.current_time()
        await tasks.start(controller.run)
        await looks(controller, 2)
        assert anyio.current_time() - started >= 0.03
        await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    assert len(controller.looks) == 2


@pytest.mark.parametrize("error", [Invalid(422, "Invalid", "spec.x: no"), RuntimeError("a defect")])
async def test_a_failure_is_told_once_however_often_it_repeats_and_so_is_its_end(error: Exception) -> None:
    async def fail_thrice(_: str) -> Result:
        if len(controller.looks) <= 3:
            raise error
        return DONE

    controller = Recorder(synced(pod("a", 1)), do=fail_thrice)
    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            await tasks.start(controller.run)
            await looks(controller, 4)
            await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()
    assert [log["event"] for log in logs] == ["reconcile failed", "reconciled after failures"]
    assert logs[0]["key"] == "ns/a"


async def test_a_conflict_is_repeated_and_is_no_news() -> None:
    async def conflict_once(_: str) -> Result:
        if len(controller.looks) == 1:
            raise Conflict(409, "Conflict", "the object has been modified")
        return DONE

    controller = Recorder(synced(pod("a", 1)), do=conflict_once)
    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            await tasks.start(controller.run)
            await looks(controller, 2)
            tasks.cancel_scope.cancel()
    assert [log for log in logs if log["log_level"] != "debug"] == []


async def test_a_failing_key_does_not_hold_up_the_others() -> None:
    async def fail_a(key: str) -> Result:
        if key == "ns/a":
            raise RuntimeError("always")
        return DONE

    controller = Recorder(synced(pod("a", 1), pod("b", 2), pod("c", 3)), do=fail_a)
    async with anyio.create_task_group() as tasks:
        await tasks.start(controller.run)
        await looks(controller, 3)
        tasks.cancel_scope.cancel()
    assert {"ns/b", "ns/c"} <= set(controller.looks)


async def test_one_key_never_runs_twice_at_once_and_different_keys_do() -> None:
    class Wide(Recorder):
        workers = 4

    running: list[str] = []
    most = 0

    async def slow(key: str) -> Result:
        nonlocal most
        assert key not in running
        running.append(key)
        most = max(most, len(running))
        await anyio.sleep(0.01)
        running.remove(key)
        return DONE

    pods = synced(*(pod(name, at) for at, name in enumerate("abcd", 1)))
    controller = Wide(pods, do=slow)
    async with anyio.create_task_group() as tasks:
        await tasks.start(controller.run)
        for version in range(10, 40):
            pods.put(pod("a", version))
            await anyio.sleep(0.002)
        await anyio.sleep(0.03)
        tasks.cancel_scope.cancel()
    assert most == 4
    assert controller.looks.count("ns/a") >= 3


async def test_the_key_in_hand_is_finished_and_no_other_is_begun() -> None:
    finished: list[str] = []

    async def slow(key: str) -> Result:
        await anyio.sleep(0.05)
        finished.append(key)
        return DONE

    controller = Recorder(synced(pod("a", 1), pod("b", 2)), do=slow)
    async with anyio.create_task_group() as tasks:
        await tasks.start(controller.run)
        await looks(controller, 1)
        tasks.cancel_scope.cancel()
    assert finished == ["ns/a"]
    assert controller.looks == ["ns/a"]


async def test_a_key_that_does_not_finish_is_cut_off_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.05)

    async def hang(_: str) -> Result:
        await anyio.sleep_forever()
        raise AssertionError

    controller = Recorder(synced(pod("a", 1)), do=hang)
    with anyio.fail_after(2):
        async with anyio.create_task_group() as tasks:
            await tasks.start(controller.run)
            await looks(controller, 1)
            tasks.cancel_scope.cancel()


async def test_an_ended_controller_hears_of_nothing_more() -> None:
    pods = synced()
    controller = Recorder(pods)
    async with anyio.create_task_group() as tasks:
        await tasks.start(controller.run)
        tasks.cancel_scope.cancel()
    pods.put(pod("a", 1))
    assert len(controller.queue) == 0


async def test_a_controller_may_run_again_and_then_looks_at_everything_anew() -> None:
    controller = Recorder(synced(pod("a", 1)))
    for run in (1, 2):
        async with anyio.create_task_group() as tasks:
            await tasks.start(controller.run)
            await looks(controller, run)
            tasks.cancel_scope.cancel()
    assert controller.looks == ["ns/a", "ns/a"]
