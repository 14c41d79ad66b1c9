"""A replica of the webhooks as the manager runs it, reached by a URL on this machine, and what tests ask of it."""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TypeVar

import anyio

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import NotFound
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from gpustack_ctl.webhooks.pki import LONG_LIVED, Validity
from gpustack_ctl.webhooks.record_policy import BINDINGS, POLICIES
from gpustack_ctl.webhooks.record_policy import NAME as POLICY
from gpustack_ctl.webhooks.registration import MUTATION, VALIDATION
from gpustack_ctl.webhooks.run import WebhookConfig, Webhooks

T = TypeVar("T")

CONFIGURATIONS: tuple[tuple[Resource, str], ...] = ((MUTATING_WEBHOOKS, MUTATION), (VALIDATING_WEBHOOKS, VALIDATION))


@dataclass(frozen=True, slots=True)
class Replica:
    port: int
    webhooks: Webhooks

    async def certificate(self) -> str:
        """The PEM certificate that a client meets now."""
        return await anyio.to_thread.run_sync(ssl.get_server_certificate, ("127.0.0.1", self.port))


@asynccontextmanager
async def running_replica(
    kube: Kube,
    namespace: str,
    *,
    leads: bool = True,
    validity: Validity = LONG_LIVED,
    cert_dir: Path | None = None,
) -> AsyncIterator[Replica]:
    """Ready, and registered if it leads; nothing of it stays registered."""
    port = free_port()
    config = WebhookConfig(
        host="127.0.0.1",
        port=port,
        url=f"https://127.0.0.1:{port}",
        namespace=namespace,
        validity=validity,
        cert_dir=cert_dir,
    )
    informers = Informers(kube)
    webhooks = Webhooks(config, kube=kube, informers=informers, table=manufacturers())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(informers.run)
        await tasks.start(webhooks.serve)
        if leads:
            tasks.start_soon(webhooks.register)
        try:
            await until("the replica is ready", lambda: _ready(webhooks))
            if leads:
                await until("the webhooks are registered", lambda: registered(kube, f"127.0.0.1:{port}"))
            yield Replica(port, webhooks)
        finally:
            tasks.cancel_scope.cancel()
    if leads:
        await unregister(kube)


async def unregister(kube: Kube) -> None:
    """Take away everything that a leading replica leaves with the API server."""
    for resource, name in (*CONFIGURATIONS, (POLICIES, POLICY), (BINDINGS, POLICY)):
        await kube.delete(resource, name)


async def registered(kube: Kube, host: str) -> list[Obj]:
    """Both configurations, once the API server calls `host`."""
    found = [await kube.get(resource, name) for resource, name in CONFIGURATIONS]
    return found if all(host in entry["clientConfig"]["url"] for live in found for entry in live["webhooks"]) else []


async def until(what: str, look: Callable[[], Awaitable[T]], *, seconds: float = 10) -> T:
    """The first true answer of `look`; an AssertionError that names what never came."""
    ends = monotonic() + seconds
    while True:
        try:
            if found := await look():
                return found
        except NotFound:
            found = None
        assert monotonic() < ends, f"not within {seconds} s: {what}; last seen {found!r}"
        await anyio.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _ready(webhooks: Webhooks) -> bool:
    return webhooks.ready
