"""A device plugin's socket and its registration, kept up for as long as the agent lives.

The kubelet unlinks every socket in its plugin directory when it starts, and forgets every plugin. So a plugin is served
in generations: listen, register, and watch for a sign that this generation is over (our socket is gone or is somebody
else's, the kubelet's socket is a new one, nobody listens to our list). Then the next begins. Until it has registered
the node shows none of the resource, so this loop gives up on nothing but cancellation.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import anyio
import structlog
from grpclib import GRPCError
from grpclib.client import Channel
from grpclib.exceptions import StreamTerminatedError
from grpclib.server import Server

from gpustack_ctl.agent.plugin import DevicePlugin
from gpustack_ctl.agent.sockets import socket_address
from gpustack_ctl.proto import deviceplugin_pb2 as api
from gpustack_ctl.proto.deviceplugin_grpc import RegistrationStub

log = structlog.get_logger()

API_VERSION = "v1beta1"

_LOOK_SECONDS = 0.5
_RETRY_SECONDS = 0.5
_REGISTER_SECONDS = 10.0
#: The kubelet opens the list right after a registration; later than this it is not coming.
_LISTENER_SECONDS = 10.0


class PluginServer:
    """Keeps one device plugin known to one kubelet."""

    def __init__(self, plugin: DevicePlugin, *, kubelet_dir: Path) -> None:
        self._plugin = plugin
        directory = kubelet_dir / "device-plugins"
        self._kubelet = directory / "kubelet.sock"
        self._socket = directory / _endpoint(plugin.resource.name)
        self._log = log.bind(resource=plugin.resource.name)
        self._trouble = ""

    @property
    def registered(self) -> bool:
        """Whether a kubelet listens to the plugin's list."""
        return self._plugin.listeners > 0

    async def run(self) -> None:
        """Generation after generation, until cancelled."""
        try:
            while True:
                try:
                    await self._generation()
                except OSError as error:
                    self._report(f"{self._socket}: {error.strerror or error}")
                    await anyio.sleep(_RETRY_SECONDS)
        finally:
            self._socket.unlink(missing_ok=True)

    async def _generation(self) -> None:
        """Listen and register; return when it is time to do both anew."""
        server = Server([self._plugin])
        with socket_address(self._socket) as address:
            await server.start(path=address)
        mine = _identity(self._socket)
        try:
            kubelet = await self._register(mine)
            await self._until_over(mine, kubelet)
        finally:
            server.close()
            with anyio.CancelScope(shield=True), anyio.move_on_after(1.0):
                await server.wait_closed()

    async def _register(self, mine: _Identity | None) -> _Identity | None:
        """Register, however long the kubelet takes to be there; returns the kubelet's socket, or None if ours went."""
        while _identity(self._socket) == mine:
            kubelet = _identity(self._kubelet)
            try:
                await self._call_register()
            except (OSError, GRPCError, StreamTerminatedError, TimeoutError) as error:
                self._report(f"not registered with {self._kubelet}: {error or type(error).__name__}")
                await anyio.sleep(_RETRY_SECONDS)
            else:
                self._log.info("device plugin registered", socket=str(self._socket))
                self._trouble = ""
                return kubelet
        return None

    async def _call_register(self) -> None:
        with socket_address(self._kubelet) as address:
            channel = Channel(path=address)
            try:
                await RegistrationStub(channel).Register(
                    api.RegisterRequest(
                        version=API_VERSION,
                        endpoint=self._socket.name,
                        resource_name=self._plugin.resource.name,
                        options=self._plugin.options,
                    ),
                    timeout=_REGISTER_SECONDS,
                )
            finally:
                channel.close()

    async def _until_over(self, mine: _Identity | None, kubelet: _Identity | None) -> None:
        """Watch this generation until one of its signs of life is gone."""
        alone_since = anyio.current_time()
        while kubelet is not None:
            if _identity(self._socket) != mine:
                self._log.info("the kubelet cleared the plugin's socket, serving anew")
                return
            if _identity(self._kubelet) != kubelet:
                self._log.info("the kubelet restarted, registering anew")
                return
            if self.registered:
                alone_since = anyio.current_time()
            elif anyio.current_time() - alone_since > _LISTENER_SECONDS:
                self._log.info("the kubelet does not listen, registering anew")
                return
            await anyio.sleep(_LOOK_SECONDS)

    def _report(self, trouble: str) -> None:
        """One line per new trouble, not one per try."""
        if trouble != self._trouble:
            self._log.warning("device plugin not served", reason=trouble)
        self._trouble = trouble


class _Identity(NamedTuple):
    """Which file a path leads to. Inode numbers are used again at once, hence the time."""

    device: int
    inode: int
    changed: int


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return _Identity(found.st_dev, found.st_ino, found.st_ctime_ns)


def _endpoint(resource: str) -> str:
    return f"gpustack-{re.sub('[^a-z0-9.]+', '-', resource)}.sock"
