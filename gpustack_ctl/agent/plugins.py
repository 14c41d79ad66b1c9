"""All device plugins of this node: one for each resource name that its cards have a population for.

Partitioning a card moves it to another population while the agent runs, so plugins may join. None leaves: its tokens
are then none, and the kubelet forgets a resource only when it restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import anyio
from anyio.abc import TaskStatus

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.agent.node_ledger import NodeLedger
from gpustack_ctl.agent.serving import PluginServer
from gpustack_ctl.agent.tokens import PLUGIN_KINDS, PluginResource


class Plugins:
    """Keeps a server running for every resource name; `serve` makes one."""

    def __init__(
        self, *, ledger: NodeLedger, table: Manufacturers, serve: Callable[[PluginResource], PluginServer]
    ) -> None:
        self._ledger = ledger
        self._table = table
        self._serve = serve
        self._servers: dict[str, PluginServer] = {}
        self._changed = anyio.Event()
        ledger.on_change(self._wake)

    @property
    def registered(self) -> bool:
        """Whether the kubelet listens to every plugin."""
        return all(server.registered for server in self._servers.values())

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                changed = self._changed
                for resource in self._wanted():
                    if resource.name not in self._servers:
                        server = self._servers[resource.name] = self._serve(resource)
                        tasks.start_soon(server.run, name=f"device plugin {resource.name}")
                task_status.started()
                task_status = anyio.TASK_STATUS_IGNORED
                await changed.wait()

    def _wanted(self) -> Iterator[PluginResource]:
        for manufacturer in self._table.by_key.values():
            for kind in PLUGIN_KINDS:
                resource = PluginResource(manufacturer, kind)
                if any(resource.serves(card) for card in self._ledger.detected):
                    yield resource

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
