"""As much of a Kubernetes client as starting a cluster takes: JSON in, JSON out, one connection pool.

The product's own client lives elsewhere on purpose: a cluster that is started to test that client must not need it.
"""

import base64
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from gpustack_ctl.localcluster.errors import LocalClusterError

Obj = dict[str, Any]

_CONTEXT = "gpustack-local"

_PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}


class ApiStatusError(LocalClusterError):
    """The API server answered, and not with success."""

    def __init__(self, status: int, request: str, answer: str) -> None:
        super().__init__(f"{request} was answered with {status}: {answer}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Api:
    """The API server at ``server`` as one user."""

    server: str
    session: aiohttp.ClientSession
    tls: ssl.SSLContext

    async def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Any:
        """The decoded answer; text where the answer is not JSON (a log)."""
        answer = await self.session.request(
            method,
            self.server + path,
            data=None if body is None else orjson.dumps(body),
            headers={"Content-Type": content_type} if body is not None else None,
            ssl=self.tls,
        )
        async with answer:
            data = await answer.read()
            if answer.status >= 400:
                raise ApiStatusError(answer.status, f"{method} {path}", data.decode(errors="replace"))
            return orjson.loads(data) if answer.content_type == "application/json" else data.decode(errors="replace")

    async def get(self, path: str) -> Any:
        return await self.request("GET", path)

    async def patch(self, path: str, body: Any, *, kind: str = "merge") -> Obj:
        patched: Obj = await self.request("PATCH", path, body, content_type=_PATCHES[kind])
        return patched

    async def create(self, path: str, obj: Obj) -> None:
        """Create an object; one of that name may be there already."""
        try:
            await self.request("POST", path, obj)
        except ApiStatusError as error:
            if error.status != 409:
                raise

    async def delete(self, path: str) -> None:
        try:
            await self.request("DELETE", path)
        except ApiStatusError as error:
            if error.status != 404:
                raise

    async def watch(self, path: str, resource_version: str) -> AsyncIterator[Obj]:
        """Events from ``resource_version`` on, until the server closes the stream."""
        parameters = f"watch=true&allowWatchBookmarks=true&resourceVersion={resource_version}"
        url = f"{self.server}{path}{'&' if '?' in path else '?'}{parameters}"
        timeout = aiohttp.ClientTimeout(total=None)
        async with self.session.get(url, ssl=self.tls, timeout=timeout) as answer:
            if answer.status >= 400:
                raise ApiStatusError(answer.status, f"WATCH {path}", await answer.text())
            buffered = b""
            async for chunk in answer.content.iter_any():
                *lines, buffered = (buffered + chunk).split(b"\n")
                for line in lines:
                    yield orjson.loads(line)


@asynccontextmanager
async def connect(kubeconfig: Path) -> AsyncIterator[Api]:
    """The API server that a kubeconfig of ours points at, as its user."""
    server, tls = _read_kubeconfig(kubeconfig)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=32)) as session:
        yield Api(server, session, tls)


def write_kubeconfig(path: Path, *, server: str, authority: Path, certificate: Path, key: Path, user: str) -> None:
    """A kubeconfig that stands alone; JSON is YAML, so every tool reads it."""
    cluster = {"server": server, "certificate-authority-data": _embedded(authority)}
    credentials = {"client-certificate-data": _embedded(certificate), "client-key-data": _embedded(key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _CONTEXT,
        "clusters": [{"name": _CONTEXT, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": _CONTEXT, "context": {"cluster": _CONTEXT, "user": user}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(orjson.dumps(config, option=orjson.OPT_INDENT_2))


def _embedded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def _read_kubeconfig(path: Path) -> tuple[str, ssl.SSLContext]:
    config = orjson.loads(path.read_bytes())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = _tls(cluster["certificate-authority-data"], user["client-certificate-data"], user["client-key-data"])
    return cluster["server"], tls


def _tls(authority: str, certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
    with tempfile.NamedTemporaryFile() as pair:  # the ssl module takes a client's key from a file only
        pair.write(base64.b64decode(certificate) + b"\n" + base64.b64decode(key))
        pair.flush()
        context.load_cert_chain(pair.name)
    return context
