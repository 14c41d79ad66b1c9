"""The device plugin of one resource name, as the kubelet calls it.

Only translation happens here: the kubelet's messages in, the hint's and the allocator's answers out, and the list of
tokens pushed at once whenever it reads differently.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import anyio
import structlog
from grpclib import GRPCError, Status

from gpustack_ctl.agent import metrics
from gpustack_ctl.agent.allocate import Allocator
from gpustack_ctl.agent.fault_points import reach
from gpustack_ctl.agent.hint import Hinter
from gpustack_ctl.agent.node_ledger import NodeLedger
from gpustack_ctl.agent.reservations import Reservations
from gpustack_ctl.agent.responders.responder import Response
from gpustack_ctl.agent.tokens import Offer, PluginResource
from gpustack_ctl.agent.turns import AllocationRefused
from gpustack_ctl.proto import deviceplugin_pb2 as api
from gpustack_ctl.proto.deviceplugin_grpc import DevicePluginBase

if TYPE_CHECKING:
    from grpclib.server import Stream

log = structlog.get_logger()

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


class DevicePlugin(DevicePluginBase):
    """Serves one resource name of this node."""

    def __init__(
        self,
        resource: PluginResource,
        *,
        ledger: NodeLedger,
        reservations: Reservations,
        hinter: Hinter,
        allocator: Allocator,
    ) -> None:
        self.resource = resource
        self._ledger = ledger
        self._reservations = reservations
        self._hinter = hinter
        self._allocator = allocator
        self._changed = anyio.Event()
        #: How many kubelets are listening to the list now; the server registers again when nobody is.
        self.listeners = 0
        ledger.on_change(self._wake)

    @property
    def options(self) -> api.DevicePluginOptions:
        return api.DevicePluginOptions(get_preferred_allocation_available=not self.resource.fungible)

    async def GetDevicePluginOptions(self, stream: Stream[api.Empty, api.DevicePluginOptions]) -> None:  # noqa: N802
        await stream.recv_message()
        await stream.send_message(self.options)

    async def ListAndWatch(self, stream: Stream[api.Empty, api.ListAndWatchResponse]) -> None:  # noqa: N802
        """Push the list, and again each time it differs, until the kubelet hangs up."""
        await stream.recv_message()
        self.listeners += 1
        try:
            told: Hashable = None
            while True:
                changed = self._changed
                states, held = self._ledger.current.states, self._reservations.tokens(self.resource.name)
                reads = self.resource.reads(states, held=held)
                if reads != told:
                    devices = _devices(self.resource.offers(states, held=held))
                    await stream.send_message(api.ListAndWatchResponse(devices=devices))
                    told = reads
                await changed.wait()
        finally:
            self.listeners -= 1

    async def GetPreferredAllocation(  # noqa: N802
        self, stream: Stream[api.PreferredAllocationRequest, api.PreferredAllocationResponse]
    ) -> None:
        request: api.PreferredAllocationRequest = _present(await stream.recv_message())
        with self._timed("hint"):
            preferred = await self._preferred(request)
        await stream.send_message(
            api.PreferredAllocationResponse(
                container_responses=[api.ContainerPreferredAllocationResponse(deviceIDs=ids) for ids in preferred]
            )
        )

    async def Allocate(self, stream: Stream[api.AllocateRequest, api.AllocateResponse]) -> None:  # noqa: N802
        request: api.AllocateRequest = _present(await stream.recv_message())
        try:
            with self._timed("allocate"):
                responses = [
                    await self._allocator.allocate(self.resource, list(asked.devices_ids))
                    for asked in request.container_requests
                ]
        except AllocationRefused as refusal:
            raise GRPCError(Status.FAILED_PRECONDITION, str(refusal)) from refusal
        reach("after-response")
        await stream.send_message(api.AllocateResponse(container_responses=map(_response, responses)))
        reach("after-answer")

    async def PreStartContainer(  # noqa: N802
        self, stream: Stream[api.PreStartContainerRequest, api.PreStartContainerResponse]
    ) -> None:
        await stream.recv_message()
        await stream.send_message(api.PreStartContainerResponse())

    async def _preferred(self, request: api.PreferredAllocationRequest) -> list[list[str]]:
        return [
            await self._hinter.prefer(
                self.resource,
                available=asked.available_deviceIDs,
                must_include=asked.must_include_deviceIDs,
                size=asked.allocation_size,
            )
            for asked in request.container_requests
        ]

    def _timed(self, call: str) -> AbstractContextManager[object]:
        return metrics.call_seconds.labels(self.resource.name, call).time()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def _present(request: Any) -> Any:
    """A call's request; a client may end its side without sending one."""
    if request is None:
        raise GRPCError(Status.INVALID_ARGUMENT, "the call carries no request")
    return request


def _devices(offers: Iterable[Offer]) -> list[api.Device]:
    return [
        api.Device(
            ID=offer.id,
            health=HEALTHY if offer.healthy else UNHEALTHY,
            topology=None if offer.numa is None else api.TopologyInfo(nodes=[api.NUMANode(ID=offer.numa)]),
        )
        for offer in offers
    ]


def _response(response: Response) -> api.ContainerAllocateResponse:
    return api.ContainerAllocateResponse(
        envs=response.envs,
        mounts=[
            api.Mount(container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only)
            for mount in response.mounts
        ],
        devices=[
            api.DeviceSpec(container_path=node.path, host_path=node.path, permissions=node.permissions)
            for node in response.devices
        ],
        annotations=response.annotations,
    )
