"""A real HTTPS server with a certificate of its own, on a free port of this machine."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
import yaml
from anyio.abc import TaskStatus

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.resources import PODS
from gpustack_ctl.webhooks import pki
from gpustack_ctl.webhooks.review import Allowed, Question, Verdict
from gpustack_ctl.webhooks.server import Server
from gpustack_ctl.webhooks.tls import Tls
from gpustack_ctl.webhooks.webhook import Webhook


@dataclass(frozen=True, slots=True)
class Served:
    port: int
    tls: Tls
    server: Server
    #: Tells the server, and nobody else, to go.
    scope: anyio.CancelScope
    gone: anyio.Event

    def trusting(self) -> ssl.SSLContext:
        """A client's context that trusts what the server says must be trusted."""
        assert self.tls.trusted is not None
        return ssl.create_default_context(cadata=self.tls.trusted.decode())


Serve = Callable[..., AbstractAsyncContextManager[Served]]


def allow(_question: Question) -> Verdict:
    return Allowed()


@pytest.fixture
def serve() -> Serve:
    @asynccontextmanager
    async def served(decide: Callable[[Question], Verdict] = allow, *, notice: float = 0) -> AsyncIterator[Served]:
        webhook = Webhook(
            name="test.worker.gpustack.ai",
            path="/test",
            resource=PODS,
            operations=("CREATE",),
            mutates=True,
            decide=decide,
        )
        tls = Tls()
        made = pki.first({"127.0.0.1"}, datetime.now(UTC))
        tls.install(made.leaf, trusted=made.trusted)
        server = Server([webhook], host="127.0.0.1", port=0, tls=tls.context, notice=notice)
        gone = anyio.Event()

        async def run(*, task_status: TaskStatus[Served]) -> None:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as inner:
                    port = await inner.start(server.run)
                    task_status.started(Served(port, tls, server, scope, gone))
            gone.set()

        async with anyio.create_task_group() as tasks:
            running = await tasks.start(run)
            try:
                yield running
            finally:
                running.scope.cancel()

    return served


@pytest.fixture
async def informers(tmp_path: Path) -> AsyncIterator[Informers]:
    """Informers that are never started: what they hold is what a test puts in."""
    config = tmp_path / "kubeconfig"
    named = {"name": "here"}
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{**named, "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{**named, "user": {"token": "t"}}],
                "contexts": [{**named, "context": {"cluster": "here", "user": "here"}}],
                "current-context": "here",
            }
        )
    )
    async with Kube.connect(kubeconfig=str(config)) as kube:
        yield Informers(kube)
