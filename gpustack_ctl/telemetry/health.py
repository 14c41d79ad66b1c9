"""`/healthz`, `/readyz` and `/metrics` of one process.

A role adds a check for each thing it needs before it may get traffic: caches synced, certificate valid, kubelet
registered. `/healthz` answers as long as the event loop turns; `/readyz` names every check that is not there yet.
"""

import os
from collections.abc import Callable

import anyio
from aiohttp import web
from anyio.abc import TaskStatus
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

Check = Callable[[], bool]


class CannotServeError(Exception):
    """The port is taken, or not allowed; the text names it."""


class Health:
    """The checks of a process and the small HTTP server that reports them."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def require(self, name: str, check: Check) -> None:
        """Hold `/readyz` back until `check()` is true."""
        self._checks[name] = check

    @property
    def missing(self) -> list[str]:
        """The names of the checks that fail now, in the order they were added."""
        return [name for name, check in self._checks.items() if not check()]

    async def serve(self, *, host: str, port: int, task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; reports the port taken (`port` 0 takes a free one). Raises CannotServeError."""
        app = web.Application()
        app.add_routes([web.get("/healthz", _alive), web.get("/readyz", self._ready), web.get("/metrics", _metrics)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, host, port).start()
            except OSError as cause:
                raise CannotServeError(
                    f"/metrics cannot be served on {host}:{port}: {os.strerror(cause.errno or 0)}; "
                    "choose another port with --metrics-port"
                ) from cause
            task_status.started(runner.addresses[0][1])
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await runner.cleanup()

    async def _ready(self, _: web.Request) -> web.Response:
        missing = self.missing
        if missing:
            return web.Response(status=503, text="not ready: " + ", ".join(missing) + "\n")
        return web.Response(text="ok\n")


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _metrics(_: web.Request) -> web.Response:
    return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})
