"""Where the served certificate comes from: a Secret that we keep ourselves, or a directory that somebody else
keeps.

Replicas share one Secret, so that any of them can answer for all. The first to find it missing or due writes
it, with the version it read; the others lose that write, see the winner's and serve the same. None of this
needs a leader. A directory (a mounted Secret of cert-manager's, say) is only read: its owner renews it, and we
serve what we find there.
"""

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import anyio
import structlog

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import AlreadyExists, Conflict, KubeError
from gpustack_ctl.kube.informer import Informer, Informers
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import SECRETS
from gpustack_ctl.webhooks import pki
from gpustack_ctl.webhooks.pki import LONG_LIVED, CertificateError, Certificates, Due, Pair, Validity
from gpustack_ctl.webhooks.tls import Clock, Tls, wall_clock

log = structlog.get_logger()

SECRET_NAME = "gpustack-webhook-tls"  # noqa: S105 - a name, not a secret

_LOOK_SECONDS = 60.0
_RETRY_SECONDS = 2.0
_DIRECTORY_SECONDS = 5.0


class CertificateSource(Protocol):
    """Keeps a Tls supplied until cancelled."""

    async def run(self, tls: Tls) -> None: ...


class CertificateSecret:
    """Our own authority and certificate, in a Secret of our namespace."""

    def __init__(
        self,
        *,
        kube: Kube,
        informers: Informers,
        namespace: str,
        names: Iterable[str],
        validity: Validity = LONG_LIVED,
        now: Clock = wall_clock,
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._names = frozenset(names)
        self._validity = validity
        self._now = now
        self._look_seconds = min(_LOOK_SECONDS, validity.leaf.total_seconds() / 30)
        self._secret: Informer = informers.of(
            SECRETS, namespace=namespace, field_selector=f"metadata.name={SECRET_NAME}"
        )
        self._changed = anyio.Event()

    async def run(self, tls: Tls) -> None:
        unsubscribe = self._secret.subscribe(lambda _old, _new: self._changed.set())
        try:
            await self._secret.wait_synced()
            while True:
                self._changed = anyio.Event()
                wait = await self._step(tls)
                with anyio.move_on_after(wait):
                    await self._changed.wait()
        finally:
            unsubscribe()

    async def _step(self, tls: Tls) -> float:
        """Serve what the Secret holds, or take it one step further; answers how long that may stand."""
        secret = self._secret.get(f"{self._namespace}/{SECRET_NAME}")
        held = _held(secret) if secret else None
        now = self._now()
        if held is not None:
            tls.install(held.leaf, trusted=held.trusted)
            step = pki.due(held, self._names, now, self._validity)
            if step is Due.NOTHING:
                return self._look_seconds
            log.info("renewing the webhook's certificates", what=step.value, secret=SECRET_NAME)
            wanted = pki.renewed(held, self._names, now, self._validity)
        else:
            wanted = pki.first(self._names, now, self._validity)
        await self._write(secret, wanted)
        # Whoever wrote it, the informer's word of the new Secret is what ends the wait.
        return _RETRY_SECONDS

    async def _write(self, secret: Obj | None, wanted: Certificates) -> None:
        data = {key: base64.b64encode(value).decode() for key, value in _as_data(wanted).items()}
        try:
            if secret is None:
                new = {
                    "metadata": {"name": SECRET_NAME, "namespace": self._namespace},
                    "type": "kubernetes.io/tls",
                    "data": data,
                }
                self._secret.observe(await self._kube.create(SECRETS, new))
            else:
                # The version that was read goes along, so of two replicas only one renews.
                self._secret.observe(await self._kube.replace(SECRETS, {**secret, "data": data}))
        except (Conflict, AlreadyExists):
            log.info("another replica wrote the webhook's certificates first", secret=SECRET_NAME)
        except KubeError as cause:
            log.warning("cannot write the webhook's certificates", secret=SECRET_NAME, cause=str(cause))


class CertificateDirectory:
    """`tls.crt`, `tls.key` and, if clients need to be told whom to trust, `ca.crt`, in a directory that is re-read.

    It is read and compared every few seconds. A kubelet changes a mounted Secret by swapping a link, which nothing in
    the standard library reports, and comparing three small files costs nothing.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = anyio.Path(directory)
        self._fault = ""

    async def run(self, tls: Tls) -> None:
        while True:
            try:
                tls.install(
                    Pair(certificate=await self._read("tls.crt"), key=await self._read("tls.key")),
                    trusted=await self._read("ca.crt") if await (self._directory / "ca.crt").exists() else None,
                )
                self._fault = ""
            except (OSError, CertificateError) as fault:
                self._report(str(fault))
            await anyio.sleep(_DIRECTORY_SECONDS)

    async def _read(self, name: str) -> bytes:
        return await (self._directory / name).read_bytes()

    def _report(self, fault: str) -> None:
        # A directory is replaced file by file, so one bad read is ordinary and the same one for hours is one line.
        if fault != self._fault:
            log.warning("no usable certificate in the directory", directory=str(self._directory), fault=fault)
        self._fault = fault


def _held(secret: Obj) -> Certificates | None:
    """The certificates of a Secret; None, said aloud, when it holds something else."""
    try:
        data = {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
        held = Certificates(
            leaf=Pair(data["tls.crt"], data["tls.key"]),
            authority=Pair(data["ca-signing.crt"], data["ca-signing.key"]),
            trusted=data["ca.crt"],
        )
        pki.check_all(held)
    except (KeyError, ValueError) as fault:
        log.warning("replacing a Secret that holds no certificates of ours", secret=SECRET_NAME, fault=str(fault))
        return None
    return held


def _as_data(certificates: Certificates) -> dict[str, bytes]:
    return {
        "tls.crt": certificates.leaf.certificate,
        "tls.key": certificates.leaf.key,
        "ca.crt": certificates.trusted,
        "ca-signing.crt": certificates.authority.certificate,
        "ca-signing.key": certificates.authority.key,
    }
