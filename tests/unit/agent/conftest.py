"""Nodes to allocate on, and the kubelet's end of a plugin's socket."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from grpclib.client import Channel
from grpclib.server import Server

from gpustack_ctl.agent.plugin import DevicePlugin
from gpustack_ctl.proto.deviceplugin_grpc import DevicePluginStub
from tests.unit.agent.one_node import FOUR_A10G, OneNode


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory whose sockets fit into the kernel's 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="gsu-", dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture
async def a_node(short_dir: Path):
    """Makes nodes: `await a_node(inventory=…, GPUSTACK_…=…)`."""
    servers = []

    async def make(inventory: str = FOUR_A10G, **env: str) -> OneNode:
        node = OneNode(short_dir, inventory, env)
        (short_dir / "pod-resources").mkdir()
        server = Server([node.kubelet])
        await server.start(path=str(short_dir / "pod-resources" / "kubelet.sock"))
        servers.append((node, server))
        await node.boot()
        return node

    yield make
    for node, server in servers:
        node.pod_resources.close()
        server.close()
        await server.wait_closed()


@pytest.fixture
async def call(short_dir: Path):
    """Serves a plugin on a socket and gives the kubelet's stub for it."""
    open_ends = []

    async def connect(plugin: DevicePlugin) -> DevicePluginStub:
        server, path = Server([plugin]), str(short_dir / "plugin.sock")
        await server.start(path=path)
        channel = Channel(path=path)
        open_ends.append((server, channel))
        return DevicePluginStub(channel)

    yield connect
    for server, channel in open_ends:
        channel.close()
        server.close()
        await server.wait_closed()
