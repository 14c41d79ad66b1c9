"""`explain` and `top` on a real API server and Kueue: what they print is what is so."""

import sys
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.text import TextReceiveStream

from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.labels import KUEUE_QUEUE_NAME
from gpustack_ctl.accel.units import M, percentage_units
from gpustack_ctl.controllers.verdicts import FOUND, HELD
from gpustack_ctl.explain.events import last_hold
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.events import Events
from gpustack_ctl.kube.objects import name_of
from gpustack_ctl.kube.resources import CONFIG_MAPS, JOBS, PODS
from gpustack_ctl.localcluster import LocalCluster
from tests.integration.controllers.stage import Stage, pod, until, workload_of
from tests.integration.controllers.test_admission_check import admitted, ask, card, half, open_pool, parked, tenant
from tests.integration.explain.conftest import Command, Ran

WHOLE = {"nvidia.com/gpu": "1"}


def answers(ran: Ran) -> list[str]:
    assert ran.code == 0, ran.err
    return [gate["answered"] for gate in ran.document["gates"]]


def gate(ran: Ran, number: int) -> dict[str, Any]:
    found: dict[str, Any] = ran.document["gates"][number - 1]
    return found


async def test_an_admitted_pod_is_explained_gate_by_gate(managed: Stage, command: Command, namespace: str) -> None:
    pool, node = await open_pool(managed, cards=2)
    await ask(managed.kube, pool, namespace, "half", half())
    await admitted(managed.kube, namespace, "half")

    async def bound() -> bool:
        return bool((await managed.kube.get(PODS, "half", namespace))["spec"].get("nodeName"))

    await until("the Pod is bound", bound)
    told = await command("explain", "pod", "half", "-n", namespace, "--output", "json")
    assert answers(told) == ["passed", "passed", "passed", "passed", "waiting"]
    assert gate(told, 1)["message"] == "folded to nvidia.com/gpu.sliced.units=800000"
    assert gate(told, 2)["saw"] == (f"800,000 units (0.5 cards) of credits.gpustack.ai/nvidia from {pool.flavor(2)}")
    assert told.document["plan"]["nodes"] == {node: [{"main": [{"id": f"GPU-{node}-0"}]}]}

    workload = await workload_of(managed.kube, namespace, "half")
    assert workload is not None
    whole = await command("explain", "workload", name_of(workload), "-n", namespace, "--output", "json")
    assert answers(whole) == answers(told)
    assert whole.document["plan"] == {"main": told.document["plan"]}
    assert whole.document["pin"] is None


async def test_a_held_pod_is_told_card_by_card_what_would_have_to_change(
    managed: Stage, command: Command, namespace: str
) -> None:
    pool, node = await open_pool(managed, cards=2)
    await tenant(managed.kube, namespace, "all", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
    await tenant(managed.kube, namespace, "part", node, card(pool, node, 1, Mode.SLICED, percentage_units(60)))
    await ask(managed.kube, pool, namespace, "late", half())
    await parked(managed.kube, namespace, "late")

    told = await command("explain", "pod", "late", "-n", namespace, "--output", "json")
    assert answers(told) == ["passed", "waiting", "held", "waiting", "waiting"]
    check = gate(told, 3)
    assert node in check["message"] and "slice of 50%" in check["message"]
    assert f"GPU-{node}-0 held whole by Pod {namespace}/all" in check["saw"]
    assert f"GPU-{node}-1 sliced 60% by Pod {namespace}/part" in check["saw"]
    assert f"1 more free card on {node}" in check["change"]
    assert f"the end of Pod {namespace}/part or of Pod {namespace}/all" in check["change"]
    assert told.document["pin"]["nodes"] == []
    text = await command("explain", "pod", "late", "-n", namespace)
    assert "⏸ 3 AdmissionCheck: held" in text.out and check["message"] in text.out

    seen = await command("top", "--output", "json")
    waiting = {each["workload"]: each for each in seen.document["pending"]}
    workload = await workload_of(managed.kube, namespace, "late")
    assert workload is not None
    mine = waiting[f"{namespace}/{name_of(workload)}"]
    assert mine["queue"] == pool.queue and mine["message"] == check["message"]
    assert mine["since"] == workload["metadata"]["creationTimestamp"]

    await managed.kube.delete(PODS, "part", namespace, grace_period=0)
    await admitted(managed.kube, namespace, "late")
    told = await command("explain", "pod", "late", "-n", namespace, "--output", "json")
    assert answers(told)[:3] == ["passed", "passed", "passed"]


async def test_more_than_the_pool_has_is_a_matter_of_credits(managed: Stage, command: Command, namespace: str) -> None:
    pool, _ = await open_pool(managed, cards=2)
    await ask(managed.kube, pool, namespace, "huge", {"nvidia.com/gpu": "3"})

    async def waits() -> Any:
        told = await command("explain", "pod", "huge", "-n", namespace, "--output", "json")
        return told if "quota" in gate(told, 2)["message"] else None

    told = await until("Kueue has looked at it", waits, seconds=20)
    assert answers(told)[:2] == ["passed", "waiting"]
    assert gate(told, 2)["saw"] == f"{pool.flavor(2)} has 2 of 2 cards left in credits"
    assert gate(told, 2)["change"] == "a request of at most 2 cards, it is for 3; or more nodes in the pool"


async def test_a_pod_outside_every_queue_meets_gates_4_and_5_alone(
    managed: Stage, command: Command, namespace: str
) -> None:
    pool, node = await open_pool(managed, cards=1)
    await tenant(managed.kube, namespace, "tenant", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
    told = await command("explain", "pod", "tenant", "-n", namespace, "--output", "json")
    assert answers(told) == ["unknown", "unknown", "unknown", "passed", "passed"]
    assert gate(told, 5)["message"] == f"GPU-{node}-0"


async def test_top_shows_pools_cards_and_who_holds_them(managed: Stage, command: Command, namespace: str) -> None:
    pool, node = await open_pool(managed, cards=2)
    await tenant(managed.kube, namespace, "tenant", node, card(pool, node, 1, Mode.SLICED, percentage_units(20)))
    await managed.occupy(node, percent={1: 20})

    async def counted() -> Any:
        seen = (await command("top", "--output", "json")).document
        found = next(each for each in seen["pools"] if each["name"] == pool.queue)
        return seen if found["acceleratorSliced"]["remaining"] == "180" else None

    seen = await until("the pool's views count the slice", counted, seconds=20)
    cards = next(each["cards"] for each in seen["nodes"] if each["name"] == node)
    free = {"mode": 0, "allocated": 0, "remaining": M, "slices": 0, "unhealthy": False, "model": pool.akey, "pods": []}
    taken = {"mode": 3, "allocated": M // 5, "remaining": M - M // 5, "slices": 1, "pods": [f"{namespace}/tenant"]}
    assert cards == [
        {"id": f"GPU-{node}-0", "index": 0, **free},
        {"id": f"GPU-{node}-1", "index": 1, **free, **taken},
    ]
    table = await command("top")
    assert pool.queue in table.out and f"{namespace}/tenant" in table.out and "sliced ×1" in table.out


async def test_a_watch_shows_what_comes(managed: Stage, control_plane: LocalCluster, namespace: str) -> None:
    pool, node = await open_pool(managed, cards=1)
    arguments = [sys.executable, "-m", "gpustack_ctl", "top", "--watch", "--kubeconfig", str(control_plane.kubeconfig)]
    shown = ""
    async with await anyio.open_process(arguments) as process:
        assert process.stdout is not None
        with anyio.fail_after(60):
            async for text in TextReceiveStream(process.stdout):
                shown += text
                if pool.akey in shown:
                    break
            await tenant(managed.kube, namespace, "comes", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
            async for text in TextReceiveStream(process.stdout):
                shown += text
                if f"{namespace}/comes" in shown:
                    break
        process.terminate()
        with anyio.fail_after(10):
            assert await process.wait() == 0
    assert f"{namespace}/comes" in shown


async def test_what_is_not_there_ends_with_1_and_near_names(managed: Stage, command: Command, namespace: str) -> None:
    pool, node = await open_pool(managed, cards=1)
    await tenant(managed.kube, namespace, "trainer-0", node, card(pool, node, 0, Mode.EXCLUSIVE, M))
    ran = await command("explain", "pod", "trainer-1", "-n", namespace, "--output", "json")
    assert ran.code == 1 and ran.out == ""
    assert f"there is no Pod trainer-1 in namespace {namespace}; near names: trainer-0" in ran.err
    assert "gpustack-ctl lint" in ran.err


async def test_a_job_is_explained_by_its_workload_pod_by_pod(managed: Stage, command: Command, namespace: str) -> None:
    pool, node = await open_pool(managed, cards=2)
    template = pod(pool, namespace, "unused", WHOLE)["spec"]
    job = {
        "metadata": {"name": "job", "namespace": namespace, "labels": {KUEUE_QUEUE_NAME: pool.entrance}},
        "spec": {"parallelism": 2, "completions": 2, "suspend": True, "template": {"spec": template}},
    }
    await until("the Job is let in", lambda: managed.kube.create(JOBS, job))
    await admitted(managed.kube, namespace, "job")

    async def bound() -> bool:
        pods = await managed.kube.list(PODS, namespace)
        return len(pods) == 2 and all(each["spec"].get("nodeName") for each in pods)

    await until("both Pods are bound", bound, seconds=20)
    workload = await workload_of(managed.kube, namespace, "job")
    assert workload is not None
    told = await command("explain", "workload", name_of(workload), "-n", namespace, "--output", "json")
    assert answers(told) == ["passed", "passed", "passed", "passed", "waiting"]
    assert gate(told, 3)["saw"] == f"the cards of {node}"
    assert gate(told, 4)["message"].startswith("2 of 2 Pods: job-")
    one = (await managed.kube.list(PODS, namespace))[0]
    assert answers(await command("explain", "pod", name_of(one), "-n", namespace, "--output", "json")) == answers(told)


async def test_the_last_hold_is_told_by_its_event_until_the_workload_is_let_go(kube: Kube, namespace: str) -> None:
    about = await kube.create(CONFIG_MAPS, {"metadata": {"name": "held", "namespace": namespace}})
    assert await last_hold(kube, about) == ""
    async with anyio.create_task_group() as tasks:
        events = Events(kube, "gpustack-test")
        tasks.start_soon(events.run)
        for reason, said in ((HELD, "1 free"), (HELD, "0 free"), (FOUND, "every Pod has its accelerators")):
            events.emit(about, reason=reason, message=said, action="Judge")
            expected = said if reason == HELD else ""

            async def told(expected: str = expected) -> bool:
                return await last_hold(kube, about) == expected

            await until(f"{reason} {said!r} is told", told)
        tasks.cancel_scope.cancel()


async def test_a_server_that_is_not_there_ends_with_3(tmp_path: Path) -> None:
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(
        """{apiVersion: v1, kind: Config, current-context: c,
        clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}],
        users: [{name: c, user: {}}], contexts: [{name: c, context: {cluster: c, user: c}}]}"""
    )
    for words in (["explain", "pod", "any"], ["top"], ["top", "--watch"]):
        command = [sys.executable, "-m", "gpustack_ctl", *words, "--kubeconfig", str(nowhere)]
        with anyio.fail_after(60):
            ended = await anyio.run_process(command, check=False)
        assert ended.returncode == 3, ended.stderr
        assert b"cannot be reached" in ended.stderr and ended.stdout == b""
