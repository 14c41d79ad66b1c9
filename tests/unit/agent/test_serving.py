"""A plugin's socket and registration over the lives of a kubelet. The registry is the kubelet's protocol on a real
socket."""

from contextlib import asynccontextmanager

import anyio
import pytest
from grpclib import GRPCError, Status
from grpclib.client import Channel
from grpclib.server import Server

from gpustack_ctl.accel.families import KeyKind
from gpustack_ctl.agent import serving
from gpustack_ctl.agent.serving import PluginServer
from gpustack_ctl.agent.sockets import socket_address
from gpustack_ctl.proto import deviceplugin_pb2 as api
from gpustack_ctl.proto.deviceplugin_grpc import DevicePluginStub, RegistrationBase
from tests.unit.agent.one_node import slice_of


class Registry(RegistrationBase):
    """The kubelet's registry: it listens to whoever registers, as a kubelet does."""

    def __init__(self, directory, tasks) -> None:
        self.directory = directory
        self.requests: list[api.RegisterRequest] = []
        self.lists: list[list[api.Device]] = []
        self._tasks = tasks

    async def Register(self, stream) -> None:  # noqa: N802 - the service's own name
        request = await stream.recv_message()
        self.requests.append(request)
        self._tasks.start_soon(self._listen, self.directory / request.endpoint)
        await stream.send_message(api.Empty())

    async def _listen(self, path) -> None:
        with socket_address(path) as address:
            channel = Channel(path=address)
            try:
                async with DevicePluginStub(channel).ListAndWatch.open() as stream:
                    await stream.send_message(api.Empty(), end=True)
                    async for message in stream:
                        self.lists.append(list(message.devices))
            finally:
                channel.close()


@asynccontextmanager
async def _kubelet(directory):
    """One life of a kubelet: it clears the sockets of its directory, then listens; at its end its socket stays."""
    for path in directory.glob("*.sock"):
        path.unlink()
    async with anyio.create_task_group() as tasks:
        registry = Registry(directory, tasks)
        server = Server([registry])
        with socket_address(directory / "kubelet.sock") as address:
            await server.start(path=address)
        try:
            yield registry
        finally:
            server.close()
            await server.wait_closed()
            tasks.cancel_scope.cancel()


async def _until(condition, *, seconds=5.0):
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - the other side is another task's business
            await anyio.sleep(0.01)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch):
    monkeypatch.setattr(serving, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(serving, "_RETRY_SECONDS", 0.02)


@pytest.fixture
async def served(a_node, short_dir):
    """A slice plugin being served below the directory."""
    node = await a_node()
    directory = short_dir / "device-plugins"
    directory.mkdir()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(PluginServer(node.plugin(KeyKind.SLICED), kubelet_dir=short_dir).run)
        yield node, directory
        tasks.cancel_scope.cancel()
    assert not list(directory.glob("gpustack-*"))


async def test_a_plugin_registers_once_the_kubelet_is_there(served):
    _, directory = served
    await anyio.sleep(0.1)

    async with _kubelet(directory) as kubelet:
        await _until(lambda: kubelet.lists)

        (request,) = kubelet.requests
        assert (request.version, request.resource_name) == ("v1beta1", "nvidia.com/gpu.sliced")
        assert request.options.get_preferred_allocation_available
        assert len(kubelet.lists[0]) == 512


async def test_every_new_kubelet_is_registered_with(served):
    _, directory = served
    for _ in range(3):
        async with _kubelet(directory) as kubelet:
            await _until(lambda: kubelet.lists)


async def test_a_socket_that_somebody_removed_is_served_anew(served):
    _, directory = served
    async with _kubelet(directory) as kubelet:
        await _until(lambda: kubelet.lists)
        next(directory.glob("gpustack-*")).unlink()

        await _until(lambda: len(kubelet.requests) == 2)


async def test_a_kubelet_that_hangs_up_is_registered_with_again(served, monkeypatch):
    monkeypatch.setattr(serving, "_LISTENER_SECONDS", 0.2)
    _, directory = served

    class Deaf(Registry):
        async def _listen(self, path) -> None:
            pass

    async with anyio.create_task_group() as tasks:
        registry = Deaf(directory, tasks)
        server = Server([registry])
        await server.start(path=str(directory / "kubelet.sock"))
        await _until(lambda: len(registry.requests) >= 2)
        server.close()
        await server.wait_closed()


async def test_a_change_is_pushed_at_once_and_nothing_when_nothing_changed(served):
    node, directory = served
    async with _kubelet(directory) as kubelet:
        await _until(lambda: kubelet.lists)
        node.ledger.changed()
        await anyio.sleep(0.05)
        assert len(kubelet.lists) == 1

        card = node.ledger.detected[0]
        node.admit("whole", {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}})
        await node.allocate(KeyKind.WHOLE, tokens=[f"{card.group}::{card.id}::0"])

        await _until(lambda: len(kubelet.lists) == 2)
        assert sum(device.health == "Unhealthy" for device in kubelet.lists[1]) == 128


async def test_a_refusal_reaches_the_kubelet_as_failed_precondition(a_node, call):
    node = await a_node()
    node.admit("late", slice_of(50))
    stub = await call(node.plugin(KeyKind.SLICED))

    with pytest.raises(GRPCError) as refused:
        await stub.Allocate(api.AllocateRequest(container_requests=[{"devices_ids": ["not a token"]}]))

    assert refused.value.status is Status.FAILED_PRECONDITION
    assert "default/late container main" in refused.value.message


async def test_the_answers_travel_whole(a_node, call):
    node = await a_node()
    node.admit("half", slice_of(50))
    stub = await call(node.plugin(KeyKind.SLICED))
    available = node.free_tokens(KeyKind.SLICED)

    hint = await stub.GetPreferredAllocation(
        api.PreferredAllocationRequest(container_requests=[{"available_deviceIDs": available, "allocation_size": 1}])
    )
    chosen = list(hint.container_responses[0].deviceIDs)
    answer = await stub.Allocate(api.AllocateRequest(container_requests=[{"devices_ids": chosen}]))

    assert len(chosen) == 1
    assert answer.container_responses[0].envs["CUDA_DEVICE_SM_LIMIT"] == "100"
    await stub.PreStartContainer(api.PreStartContainerRequest())


async def test_a_socket_below_a_long_path_is_bound_and_reached(tmp_path):
    directory = tmp_path / ("deep" * 20) / ("deeper" * 10)
    directory.mkdir(parents=True)
    async with _kubelet(directory) as kubelet:
        with socket_address(directory / "kubelet.sock") as address:
            assert len(address) < 107
            await (await anyio.connect_unix(address)).aclose()
        assert kubelet.requests == []
