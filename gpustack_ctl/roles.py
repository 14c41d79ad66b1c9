"""The roles of one process: one connection, one informer layer, one health endpoint, whichever roles it runs."""

import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
import structlog
from anyio.abc import TaskStatus

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.telemetry.health import Health

if TYPE_CHECKING:  # a role is imported when it runs: an agent should not carry the manager in its memory
    from gpustack_ctl.manager import ManagerConfig
    from gpustack_ctl.node_agent import NodeAgentConfig

log = structlog.get_logger()


async def serve(
    kube: Kube,
    *,
    manager: "ManagerConfig | None" = None,
    agent: "NodeAgentConfig | None" = None,
    host: str = "0.0.0.0",  # noqa: S104 - probes and scrapes come from outside the Pod
    metrics_port: int = 0,
    task_status: TaskStatus[Informers] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Run the roles that have a configuration until cancelled.

    Started once every role serves; reports the informer layer that they share.
    """
    informers, health = Informers(kube), Health()
    health.require("caches synced", lambda: informers.synced)
    async with anyio.create_task_group() as tasks:
        port = await tasks.start(
            lambda task_status: health.serve(host=host, port=metrics_port, task_status=task_status)
        )
        await tasks.start(informers.run)
        if manager is not None:
            await tasks.start(_manager, manager, kube, informers, health)
        if agent is not None:
            await tasks.start(_agent, agent, kube, informers, health)
        log.info("serving", server=kube.server, metrics_port=port)
        task_status.started(informers)


async def _manager(
    config: "ManagerConfig", kube: Kube, informers: Informers, health: Health, *, task_status: TaskStatus[None]
) -> None:
    from gpustack_ctl import manager

    await manager.run(config, kube, informers, health, task_status=task_status)


async def _agent(
    config: "NodeAgentConfig", kube: Kube, informers: Informers, health: Health, *, task_status: TaskStatus[None]
) -> None:
    from gpustack_ctl import node_agent

    await node_agent.run(config, kube, informers, health, task_status=task_status)


async def until_signal(function: Callable[[], Awaitable[None]]) -> None:
    """Run `function` until it ends, or until SIGTERM or SIGINT cancels it: everything in it drains in its `finally`."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch_signals, tasks.cancel_scope)
        await function()
        tasks.cancel_scope.cancel()


async def _watch_signals(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            log.info("stopping", signal=signal.Signals(number).name)
            scope.cancel()
            return
