"""The webhooks of one process, composed: what is served, with which certificate, and how the API server learns of
it.

Serving and registering are apart, because every replica answers while one of them, the leader, writes the
configurations.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskStatus

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.webhooks.certificates import CertificateDirectory, CertificateSecret, CertificateSource
from gpustack_ctl.webhooks.gate1 import Gate1
from gpustack_ctl.webhooks.instance_types import InstanceTypes
from gpustack_ctl.webhooks.jobs import job_webhooks
from gpustack_ctl.webhooks.pki import LONG_LIVED, Validity
from gpustack_ctl.webhooks.pods import pod_webhooks
from gpustack_ctl.webhooks.pools import Pools
from gpustack_ctl.webhooks.record_policy import RecordPolicy
from gpustack_ctl.webhooks.registration import Address, Registration
from gpustack_ctl.webhooks.server import Server
from gpustack_ctl.webhooks.tls import Tls
from gpustack_ctl.webhooks.workloads import WorkloadPins

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookConfig:
    """Where the webhooks listen and how the API server reaches them."""

    port: int = 9443
    #: Where to listen; unset, on this machine only when the URL leads no further, else on every interface.
    host: str | None = None
    #: Reached by this URL (`https://192.168.1.7:9443`) instead of by the Service.
    url: str | None = None
    #: Certificates are read here instead of being made and kept in a Secret.
    cert_dir: Path | None = None
    namespace: str = "gpustack-system"
    service: str = "gpustack-webhook"
    service_port: int = 443
    validity: Validity = LONG_LIVED

    def __post_init__(self) -> None:
        if self.url is not None and (urlsplit(self.url).scheme != "https" or not urlsplit(self.url).hostname):
            raise ValueError(f"the webhook URL {self.url!r} is not https://HOST[:PORT]: the API server calls no other")

    @property
    def listen(self) -> str:
        if self.host is not None:
            return self.host
        reached = urlsplit(self.url).hostname if self.url else None
        return reached if reached in _LOOPBACK else "0.0.0.0"  # noqa: S104 - a Service comes from outside

    @property
    def notice(self) -> float:
        """Seconds for which a replica that leaves still answers: a Service goes on sending until it has heard."""
        return 0 if self.url is not None else 5

    @property
    def address(self) -> Address:
        return Address(url=self.url, service=self.service, namespace=self.namespace, port=self.service_port)

    @property
    def names(self) -> frozenset[str]:
        """The names and IP addresses that the certificate must carry."""
        if self.url is not None:
            return frozenset({urlsplit(self.url).hostname or ""})
        return frozenset({f"{self.service}.{self.namespace}.svc"})


class Webhooks:
    """All webhooks of this process."""

    def __init__(self, config: WebhookConfig, *, kube: Kube, informers: Informers, table: Manufacturers) -> None:
        self._pools = Pools(informers, table)
        gate = Gate1(self._pools, table)
        served = (
            *pod_webhooks(gate),
            *job_webhooks(gate),
            WorkloadPins(informers, table).webhook(),
            *InstanceTypes(informers, table).webhooks(),
        )
        self._tls = Tls()
        self._certificates = _certificates(config, kube, informers)
        self._server = Server(served, host=config.listen, port=config.port, tls=self._tls.context, notice=config.notice)
        self._registration = Registration(
            kube=kube, informers=informers, webhooks=served, address=config.address, tls=self._tls
        )
        self._record_policy = RecordPolicy(kube=kube, informers=informers)

    @property
    def ready(self) -> bool:
        """Whether a review that comes now gets a true answer: for the readiness probe."""
        return self._server.listening and self._tls.valid and self._pools.synced

    async def serve(self, *, task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED) -> None:
        """Every replica's part: answer until cancelled, then finish what is in flight. Reports the port taken."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._certificates.run, self._tls)
            port: int = await tasks.start(self._server.run)
            task_status.started(port)

    async def register(self) -> None:
        """The leader's part: keep what the API server is told as it should be, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._registration.run)
            tasks.start_soon(self._record_policy.run)


def _certificates(config: WebhookConfig, kube: Kube, informers: Informers) -> CertificateSource:
    if config.cert_dir is not None:
        return CertificateDirectory(config.cert_dir)
    return CertificateSecret(
        kube=kube,
        informers=informers,
        namespace=config.namespace,
        names=config.names,
        validity=config.validity,
    )
