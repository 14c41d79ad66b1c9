"""Events reach the API server, once for each thing told, whatever happens to the teller."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from gpustack_ctl.kube import events as module
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.events import Events
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import EVENTS, NODES, SECRETS
from tests.integration.kube.plane import Plane

HELD: dict[str, Any] = {"reason": "Held", "action": "Admit", "type": "Warning"}


async def subject(kube: Kube, namespace: str, name: str = "a") -> Obj:
    return await kube.create(SECRETS, {"metadata": {"namespace": namespace, "name": name}})


async def written(kube: Kube, namespace: str, true: Callable[[list[Obj]], bool]) -> list[Obj]:
    with anyio.fail_after(10):
        while not true(found := await kube.list(EVENTS, namespace)):  # noqa: ASYNC110 — it waits for another program
            await anyio.sleep(0.05)
    return found


async def test_an_event_says_what_happened_to_which_object(kube: Kube, namespace: str) -> None:
    events = Events(kube, "gpustack-test")
    obj = await subject(kube, namespace)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events.run)
        events.emit(obj, message="no card has room", **HELD)
        (event,) = await written(kube, namespace, bool)
        tasks.cancel_scope.cancel()
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "Secret",
        "namespace": namespace,
        "name": "a",
        "uid": obj["metadata"]["uid"],
    }
    assert (event["reason"], event["note"], event["type"]) == ("Held", "no card has room", "Warning")
    assert event["reportingController"] == "gpustack-test"
    assert "series" not in event


async def test_the_same_thing_told_again_is_one_event_with_a_count(
    kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REPEAT_FIRST_SECONDS", 0.1)
    events = Events(kube, "gpustack-test")
    obj = await subject(kube, namespace)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events.run)
        for _ in range(5):
            events.emit(obj, message="held", **HELD)
            await anyio.sleep(0.05)
        await written(kube, namespace, lambda found: [e.get("series", {}).get("count") for e in found] == [5])
        events.emit(obj, message="held for another reason", **HELD)
        await written(kube, namespace, lambda found: len(found) == 2)
        tasks.cancel_scope.cancel()


async def test_repetitions_are_written_more_and_more_rarely(kube: Kube, namespace: str) -> None:
    events = Events(kube, "gpustack-test")
    obj = await subject(kube, namespace)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events.run)
        events.emit(obj, message="held", **HELD)
        (first,) = await written(kube, namespace, bool)
        for _ in range(100):
            events.emit(obj, message="held", **HELD)
            await anyio.sleep(0.002)
        assert await kube.list(EVENTS, namespace) == [first]
        tasks.cancel_scope.cancel()
    (last,) = await kube.list(EVENTS, namespace)
    assert last["series"]["count"] == 101


async def test_what_is_told_last_is_written_before_the_end(kube: Kube, namespace: str) -> None:
    events = Events(kube, "gpustack-test")
    obj = await subject(kube, namespace)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events.run)
        await anyio.sleep(0.05)
        for at in range(10):
            events.emit(obj, message=f"reason {at}", **HELD)
        tasks.cancel_scope.cancel()
    assert len(await kube.list(EVENTS, namespace)) == 10


async def test_an_object_about_which_too_much_is_told_is_told_of_no_more(kube: Kube, namespace: str) -> None:
    events = Events(kube, "gpustack-test")
    loud, quiet = await subject(kube, namespace, "loud"), await subject(kube, namespace, "quiet")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events.run)
        for at in range(200):
            events.emit(loud, message=f"reason {at}", **HELD)
        events.emit(quiet, message="still heard", **HELD)
        await written(kube, namespace, lambda found: any(event["note"] == "still heard" for event in found))
        tasks.cancel_scope.cancel()
    assert len(await kube.list(EVENTS, namespace)) == module.BURST_PER_OBJECT + 1


async def test_an_event_on_a_cluster_scoped_object_goes_to_the_default_namespace(kube: Kube) -> None:
    node = await kube.create(NODES, {"metadata": {"name": "told-of"}})
    events = Events(kube, "gpustack-test")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events.run)
        events.emit(node, message="é" * 2000, **HELD)
        await written(kube, "default", lambda found: any(e["regarding"]["name"] == "told-of" for e in found))
        tasks.cancel_scope.cancel()
    await kube.delete(NODES, "told-of")


async def test_telling_never_fails_and_waits_for_a_server_that_is_away(
    kube: Kube, plane: Plane, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.2)
    events = Events(kube, "gpustack-test")
    obj = await subject(kube, namespace)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events.run)
        await plane.kill()
        events.emit(obj, message="told while the server was away", **HELD)
        await anyio.sleep(0.5)
        await plane.start()
        await written(kube, namespace, bool)
        tasks.cancel_scope.cancel()


async def test_a_refused_event_does_not_hold_up_the_next(kube: Kube, namespace: str) -> None:
    events = Events(kube, "gpustack-test")
    obj = await subject(kube, namespace)
    elsewhere = {"kind": "Secret", "namespace": "no-such-namespace", "name": "a"}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events.run)
        events.emit(elsewhere, message="refused", **HELD)
        events.emit(obj, message="written", **HELD)
        await written(kube, namespace, bool)
        tasks.cancel_scope.cancel()
