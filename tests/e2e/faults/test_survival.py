"""What the product survives: the API server's absence, and the death of each of its own processes."""

import os
from collections import Counter
from time import monotonic

import anyio
import orjson

from gpustack_ctl.accel.units import M
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import DEVICES, LEASES
from tests.e2e.faults.deployment import Deployment
from tests.e2e.roles import Role, until

OUTAGE = float(os.environ.get("GPUSTACK_TEST_OUTAGE_SECONDS", "20"))
"""Longer than the manager's lease, so that it has to let go of it; a minute is tried by hand."""


async def test_both_roles_live_through_an_outage_of_the_api_server_and_lose_nothing(deployment: Deployment) -> None:
    await deployment.ask("before", 20)
    await deployment.running("before")
    names = [f"during-{number}" for number in range(8)]

    async def send() -> None:
        for name in names:
            await deployment.ask(name, 20)
            await anyio.sleep(0.2)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await until("some are on their way", deployment.verdicts)
        await deployment.cluster.kill("kube-apiserver")
        await anyio.sleep(OUTAGE)
        assert deployment.manager.alive
        assert deployment.agent.alive
        await deployment.cluster.start("kube-apiserver")

    await deployment.ask("after", 20)
    await deployment.running("before", *names, "after", seconds=120)
    await deployment.settled()
    assert sum((await deployment.published()).values()) == 10 * M // 5
    for role in (deployment.manager, deployment.agent):
        assert said(role)["the API server cannot be reached; retrying"] == 1
        assert said(role)["the API server is reached again"] == 1
        assert repeated(role) == []


async def test_a_killed_agent_publishes_the_very_ledger_it_had(deployment: Deployment) -> None:
    for name, percent in (("half", 50), ("third", 33), ("large", 80)):
        await deployment.ask(name, percent)
    await deployment.running("half", "third", "large")
    await deployment.settled()
    before = await status(deployment)

    await deployment.agent.kill()
    await deployment.agent.start()

    assert await status(deployment) == before
    await anyio.sleep(2)
    assert await status(deployment) == before
    await deployment.ask("other-half", 50)
    await deployment.running("half", "third", "large", "other-half")
    await deployment.settled()


async def test_a_manager_killed_between_verdicts_leaves_none_undone(deployment: Deployment) -> None:
    """Ten times 40 % are four cards by every sum, and two to a card: eight fit, and two must wait."""
    for number in range(10):
        await deployment.ask(f"pod-{number}", 40)

    async def underway() -> bool:
        return (await deployment.verdicts()).total() > 0

    await until("the first verdicts are given", underway)
    await deployment.manager.kill()
    await deployment.manager.start()

    async def done() -> bool:
        return await deployment.verdicts() == {"Ready": 8, "Retry": 2}

    await until("eight are let in and two are held", done, seconds=90)

    async def filled() -> bool:
        return [*(await deployment.published()).values()] == [M * 4 // 5] * 4

    await until("two hold each card", filled, seconds=60)
    await deployment.settled()
    assert await deployment.verdicts() == {"Ready": 8, "Retry": 2}


async def test_sigterm_ends_both_roles_cleanly_and_soon(deployment: Deployment) -> None:
    sockets = deployment.node.kubelet_dir / "device-plugins"
    assert [*sockets.glob("gpustack-*.sock")]
    for role in (deployment.manager, deployment.agent):
        started = monotonic()
        assert await role.stop() == 0, role.log.read_text()[-2000:]
        assert monotonic() - started < 8
        assert [line for line in role.lines() if line["level"] in ("error", "critical")] == []
    lease = await deployment.kube.get(LEASES, "gpustack-manager", "gpustack-system")
    assert lease["spec"]["holderIdentity"] == ""
    assert [*sockets.glob("gpustack-*.sock")] == []


async def status(deployment: Deployment) -> bytes:
    """The published ledger, byte for byte."""
    devices: Obj = await deployment.kube.get(DEVICES, deployment.node.name)
    return orjson.dumps(devices["status"])


def said(role: Role) -> Counter[str]:
    return Counter(line["event"] for line in role.lines())


def repeated(role: Role) -> list[dict[str, str]]:
    """Warnings that were given more than once: each is to be told when it begins, not whenever something is retried."""
    warnings = [
        tuple(sorted((key, str(value)) for key, value in line.items() if key not in ("timestamp", "retry_after")))
        for line in role.lines()
        if line["level"] in ("warning", "error")
    ]
    return [dict(line) for line, times in Counter(warnings).items() if times > 1]
