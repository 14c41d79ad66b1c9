"""The certificate being served, and changing it under a running server.

A TLS context is read at every handshake, so loading a new pair into it is the whole of a rotation: connections
that are open keep the certificate they began with, the next one gets the new. A pair is checked before it is
loaded, because a context that took a certificate and then refused its key would serve neither.
"""

import ssl
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime

from gpustack_ctl.webhooks import metrics, pki
from gpustack_ctl.webhooks.pki import Pair

Clock = Callable[[], datetime]


def wall_clock() -> datetime:
    return datetime.now(UTC)


class Tls:
    """A server context whose certificate changes; empty until the first `install`."""

    def __init__(self, *, now: Clock = wall_clock) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        #: PEM of what clients must trust; None when they know without us (a public authority, or somebody's injector).
        self.trusted: bytes | None = None
        self._pair: Pair | None = None
        self._expiry: datetime | None = None
        self._now = now
        self._listeners: list[Callable[[], None]] = []

    @property
    def valid(self) -> bool:
        """Whether a certificate is being served and has not ended."""
        return self._expiry is not None and self._now() < self._expiry

    def install(self, pair: Pair, *, trusted: bytes | None) -> None:
        """Serve `pair` from the next handshake on. Raises CertificateError, and changes nothing, when it is no pair."""
        if (pair, trusted) == (self._pair, self.trusted):
            return
        pki.check(pair)
        expiry = pki.expiry(pair.certificate)
        # The standard library loads certificates from files only. This one is readable by us alone, and for a moment.
        with tempfile.NamedTemporaryFile(prefix="gpustack-ctl-") as file:
            file.write(pair.key + b"\n" + pair.certificate)
            file.flush()
            self.context.load_cert_chain(file.name)
        self._pair, self._expiry, self.trusted = pair, expiry, trusted
        metrics.certificate_expiry_seconds.set(expiry.timestamp())
        for listener in self._listeners:
            listener()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener()` after every change."""
        self._listeners.append(listener)
