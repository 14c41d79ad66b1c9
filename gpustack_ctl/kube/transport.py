"""One request to the API server: bytes out, bytes in, and every failure as one clear error.

What is retried here is only what is safe to repeat without asking: a read whose connection broke, and anything that
the server turned away unprocessed (429, with its own Retry-After). All else is the caller's to decide.
"""

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import random
from typing import Any

import aiohttp
import anyio
import orjson

from gpustack_ctl.kube import metrics
from gpustack_ctl.kube.credentials import Credentials
from gpustack_ctl.kube.errors import ApiError, Forbidden, TooManyRequests, Unreachable, error_of

REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 10.0
_READ_RETRIES = 2
_PATIENCE_RETRIES = 5
_PATIENCE_SECONDS = 10.0


class Transport:
    """Requests over one session, with its credentials, to one server."""

    def __init__(self, credentials: Credentials, *, user_agent: str) -> None:
        self._credentials = credentials
        self._headers = {"User-Agent": user_agent, "Accept": "application/json"}

    @property
    def server(self) -> str:
        return self._credentials.server

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        seconds: float = REQUEST_SECONDS,
    ) -> bytes:
        """The body of a successful answer. Raises ApiError or Unreachable.

        `seconds` bounds one try, from connecting to the last byte.
        """
        data = None if body is None else orjson.dumps(body)
        timeout = aiohttp.ClientTimeout(total=seconds, connect=CONNECT_SECONDS)
        broken = turned_away = 0
        while True:
            try:
                async with self._exchange(
                    method, path, query=query, data=data, content_type=content_type, timeout=timeout
                ) as response:
                    return await response.read()
            except Unreachable as error:
                broken += 1
                if method != "GET" or error.waited or broken > _READ_RETRIES:
                    raise
                await anyio.sleep(0.05 * broken * (1 + random()))  # noqa: S311 — spreads retries, guards nothing
            except TooManyRequests as error:
                turned_away += 1
                if turned_away > _PATIENCE_RETRIES:
                    raise
                await anyio.sleep(min(error.retry_after or 1.0, _PATIENCE_SECONDS) * (1 + random() / 4))  # noqa: S311

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A response whose body arrives over time, as the chunks that came; `silence` bounds the wait for each."""
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=silence)
        async with self._exchange("GET", path, query=query, timeout=timeout) as response:
            yield self._chunks(response)

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error

    @asynccontextmanager
    async def _exchange(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 — aiohttp's own: it tells connecting from reading
        data: bytes | None = None,
        content_type: str = "",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One try, or two when the first showed that our credentials had run out."""
        renewed = False
        while True:
            generation = self._credentials.generation
            headers = dict(self._headers)
            if data is not None:
                headers["Content-Type"] = content_type
            if authorization := await self._credentials.authorization():
                headers["Authorization"] = authorization
            try:
                async with self._credentials.session.request(
                    method,
                    self.server + path,
                    params=query,
                    data=data,
                    headers=headers,
                    timeout=timeout,
                    allow_redirects=False,
                    **self._credentials.options,
                ) as response:
                    metrics.requests.labels(method, str(response.status)).inc()
                    if response.status < 300:
                        yield response
                        return
                    if response.status != 401 or renewed or not await self._credentials.renew(generation):
                        raise await self._refusal(response, method, path)
                    renewed = True
            except (aiohttp.ClientError, OSError) as error:
                metrics.requests.labels(method, "unreachable").inc()
                raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(self.server, _cause(error), waited=isinstance(error, TimeoutError))

    async def _refusal(self, response: aiohttp.ClientResponse, method: str, path: str) -> ApiError:
        body = await response.read()
        try:
            status = orjson.loads(body)
        except orjson.JSONDecodeError:
            status = {"message": body.decode(errors="replace").strip()[:500]}
        if not isinstance(status, dict):
            status = {"message": str(status)[:500]}
        if response.status == 401:
            message = f"{self.server} does not accept the credentials of {self._credentials.user} for {method} {path}"
            return Forbidden(401, "Unauthorized", message)
        return error_of(status, code=response.status, retry_after=_retry_after(response))

    async def close(self) -> None:
        await self._credentials.close()


def _retry_after(response: aiohttp.ClientResponse) -> float:
    try:
        return float(response.headers.get("Retry-After", 0))
    except ValueError:
        return 0.0


def _cause(error: Exception) -> str:
    """What went wrong, in the words an operator would use."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted: {error.certificate_error}"
    if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
        return f"TLS failed: {error}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"its name does not resolve: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {CONNECT_SECONDS:.0f} s"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientConnectorError):
        return os.strerror(error.os_error.errno).lower() if error.os_error.errno else str(error.os_error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed before an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer ended early"
    return str(error) or type(error).__name__
