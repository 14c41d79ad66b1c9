"""Is a program ready? Asked of the program itself, never of its log or its age."""

import ssl
from types import TracebackType

import aiohttp
import anyio

from gpustack_ctl.localcluster.pki import Authority

ADMIN = "admin"
"""Pair of the cluster-admin, whom every probe is asked as: readiness needs no anonymous access then."""


class Health:
    """Asks probe URLs, trusting the run's own authority."""

    def __init__(self, authority: Authority, *, seconds: float = 2) -> None:
        self._tls = ssl.create_default_context(cafile=str(authority.certificate))
        admin = authority.pair(ADMIN)
        self._tls.load_cert_chain(str(admin.certificate), str(admin.key))
        self._timeout = aiohttp.ClientTimeout(total=seconds)

    async def __aenter__(self) -> "Health":
        self._session = aiohttp.ClientSession(timeout=self._timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def answers(self, probe: str) -> bool:
        """Whether a program is ready: ``http(s)://`` says so, ``unix://`` takes connections, ``file://`` is there."""
        if probe.startswith("file://"):
            return await anyio.Path(probe.removeprefix("file://")).exists()
        if probe.startswith("unix://"):
            return await _accepts(probe.removeprefix("unix://"))
        try:
            async with self._session.get(probe, ssl=self._tls) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False


async def _accepts(path: str) -> bool:
    try:
        stream = await anyio.connect_unix(path)
    except OSError:
        return False
    await stream.aclose()
    return True
