"""The kubelet's own list of admitted Pods and their devices, over its pod-resources socket.

The kubelet calls a device plugin with device ids and nothing else; this list is the only place where it says, in the
same moment, whose turn it is. It names a Pod by namespace and name, knows no UID, and leaves ordinary init containers
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from grpclib import GRPCError, Status
from grpclib.client import Channel
from grpclib.exceptions import StreamTerminatedError

from gpustack_ctl.agent import metrics
from gpustack_ctl.agent.sockets import socket_address
from gpustack_ctl.proto.podresources_grpc import PodResourcesListerStub
from gpustack_ctl.proto.podresources_pb2 import ListPodResourcesRequest, ListPodResourcesResponse

#: The kubelet answers from memory; longer than this, something is wrong and another way is better than waiting.
_TIMEOUT_SECONDS = 2.0


class PodResourcesUnavailable(Exception):  # noqa: N818 - a state of the kubelet, not an error of ours
    """The kubelet did not answer, or asked for patience twice."""


@dataclass(frozen=True, slots=True)
class AdmittedPod:
    """One Pod on the kubelet's list: devices by resource name, by container."""

    namespace: str
    name: str
    containers: Mapping[str, Mapping[str, tuple[str, ...]]]

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodResources:
    """A client of one kubelet's pod-resources socket; connects when asked, and again after the kubelet restarts."""

    def __init__(self, kubelet_dir: Path) -> None:
        self._socket = kubelet_dir / "pod-resources" / "kubelet.sock"
        self._channel: Channel | None = None
        self._address = ExitStack()

    async def admitted(self) -> list[AdmittedPod]:
        """The Pods that the kubelet has admitted or is admitting. Raises PodResourcesUnavailable.

        The kubelet limits this call's rate and refuses above it; the limit refills in milliseconds, so one more try is
        worth it and a second is not.
        """
        try:
            return _read(await self._list())
        except GRPCError as error:
            if error.status is not Status.RESOURCE_EXHAUSTED:
                self.close()
        except (OSError, StreamTerminatedError, TimeoutError):
            # The kubelet restarted: the old connection is dead, the new socket may already be there.
            self.close()
        try:
            return _read(await self._list())
        except (GRPCError, OSError, StreamTerminatedError, TimeoutError) as error:
            self.close()
            raise PodResourcesUnavailable(f"{self._socket}: {error}") from error

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        self._address.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _list(self) -> ListPodResourcesResponse:
        if self._channel is None:
            self._channel = Channel(path=self._address.enter_context(socket_address(self._socket)))
        stub = PodResourcesListerStub(self._channel)
        with metrics.pod_resources_seconds.time():
            reply: ListPodResourcesResponse = await stub.List(ListPodResourcesRequest(), timeout=_TIMEOUT_SECONDS)
        return reply


def _read(reply: ListPodResourcesResponse) -> list[AdmittedPod]:
    return [
        AdmittedPod(
            namespace=pod.namespace,
            name=pod.name,
            containers={container.name: _devices(container.devices) for container in pod.containers},
        )
        for pod in reply.pod_resources
    ]


def _devices(rows: object) -> dict[str, tuple[str, ...]]:
    """Device ids by resource name; the kubelet writes one row per NUMA node."""
    devices: dict[str, tuple[str, ...]] = {}
    for row in rows:  # type: ignore[attr-defined]
        devices[row.resource_name] = devices.get(row.resource_name, ()) + tuple(row.device_ids)
    return devices
