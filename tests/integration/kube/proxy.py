"""A line to the API server that can be bad: cut, stalled, trickling, dead.

It ends TLS on both sides, so that a fault falls on an exact byte of the HTTP conversation; the conversation itself is
the real one, between the real client and the real server.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from gpustack_ctl.localcluster.health import ADMIN
from tests.integration.kube.plane import MASTERS, Plane

_REQUEST = re.compile(rb"^(?:GET|POST|PUT|PATCH|DELETE) (\S+) HTTP/1\.1\r$", re.MULTILINE)


class Proxy:
    """The line, and the switches to make it bad."""

    def __init__(self, plane: Plane) -> None:
        self.requests: list[str] = []
        self.before: Callable[[str], Awaitable[None]] | None = None
        self.trickle = False
        self.stalled = False
        self.cut_watch_after: int | None = None
        self.politely = True
        self._plane = plane
        self._holding = asyncio.Lock()
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def kubeconfig(self) -> str:
        return self._plane.kubeconfig(port=self.port)

    def watches(self) -> list[str]:
        return [path for path in self.requests if "watch=true" in path]

    def lists(self) -> list[str]:
        return [path for path in self.requests if "limit=" in path and "watch=true" not in path]

    def cut(self) -> None:
        """End every connection, now, without a word."""
        for writer in self._writers:
            writer.transport.abort()

    async def open(self) -> None:
        authority = self._plane.run.authority
        serving = authority.issue("proxy")
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(serving.certificate, serving.key)
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=tls)
        self._upstream = ssl.create_default_context(cafile=str(authority.certificate))
        pair = authority.issue(ADMIN, groups=MASTERS)
        self._upstream.load_cert_chain(pair.certificate, pair.key)

    async def close(self) -> None:
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._writers.add(writer)
        try:
            with suppress(OSError, ssl.SSLError):
                await self._carry(reader, writer)
        finally:
            self._connections.discard(task)
            self._writers.discard(writer)
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._plane.ports.api, ssl=self._upstream)
        watching = asyncio.Event()
        ways = [
            asyncio.create_task(self._up(reader, up_writer, watching)),
            asyncio.create_task(self._down(up_reader, writer, watching)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            up_writer.transport.abort()

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, watching: asyncio.Event) -> None:
        while data := await reader.read(65_536):
            for found in _REQUEST.findall(data):
                path = found.decode()
                self.requests.append(path)
                if "watch=true" in path:
                    watching.set()
                if self.before is not None:
                    async with self._holding:
                        await self.before(path)
            writer.write(data)
            await writer.drain()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, watching: asyncio.Event) -> None:
        while data := await reader.read(65_536):
            if self.stalled:
                await asyncio.sleep(3600)
            last = False
            if watching.is_set() and self.cut_watch_after is not None:
                data = data[: self.cut_watch_after]
                self.cut_watch_after -= len(data)
                last = self.cut_watch_after == 0
            pieces = [data[at : at + 1] for at in range(len(data))] if self.trickle else [data]
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if last:
                self.cut_watch_after = None
                if self.politely:
                    writer.close()
                return
        async with self._holding:  # a request that is held is not told of the server's end before it goes on
            pass


@asynccontextmanager
async def proxy_to(plane: Plane) -> AsyncIterator[Proxy]:
    proxy = Proxy(plane)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()
