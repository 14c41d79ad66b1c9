"""The API server's verbs on plain objects.

Every verb takes a `Resource` and plain dicts and answers with plain dicts; there is no cache, no model and no hidden
write here. Errors are those of `errors`.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, Self

import orjson

from gpustack_ctl.kube.credentials import Credentials
from gpustack_ctl.kube.errors import Gone, NotFound, Unreachable
from gpustack_ctl.kube.objects import Obj, Objs, name_of, namespace_of
from gpustack_ctl.kube.resources import Resource
from gpustack_ctl.kube.stream import Frame, frames
from gpustack_ctl.kube.transport import REQUEST_SECONDS, Transport

PatchKind = Literal["merge", "json", "strategic"]

_PATCH_TYPES: dict[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY_TYPE = "application/apply-patch+yaml"  # JSON is YAML, and this is the type the server looks for

PAGE = 500
WHOLE = 0  # the limit that is none
_LIST_SECONDS = 60.0


class Kube:
    """One connection to one API server; cheap to share, safe to use from every task of the process."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, *, kubeconfig: str | None = None, context: str | None = None, user_agent: str = "gpustack-ctl"
    ) -> AsyncIterator[Self]:
        """Read the configuration and hold the session open. Nothing is asked of the server yet.

        `kubeconfig` comes before ``$KUBECONFIG``, ``~/.kube/config`` and the service account of the Pod we run in.
        Raises BadKubeconfig.
        """
        transport = Transport(await Credentials.load(kubeconfig=kubeconfig, context=context), user_agent=user_agent)
        try:
            yield cls(transport)
        finally:
            await transport.close()

    @property
    def server(self) -> str:
        return self._transport.server

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Obj:
        return await self._ask("GET", resource.path(name, namespace))

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        path = resource.path(namespace=namespace_of(obj) or None)
        query = {"dryRun": "All"} if dry_run else None
        return await self._ask("POST", path, query=query, body=_typed(resource, obj))

    async def replace(self, resource: Resource, obj: Obj, *, subresource: str | None = None) -> Obj:
        """Write the whole object; with its resourceVersion inside, only over the version that was read (Conflict)."""
        path = resource.path(name_of(obj), namespace_of(obj) or None, subresource)
        return await self._ask("PUT", path, body=_typed(resource, obj))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        kind: PatchKind = "merge",
        field_manager: str | None = None,
    ) -> Obj:
        """Change parts of an object. `strategic` works on built-in kinds only: custom resources refuse it."""
        path = resource.path(name, namespace, subresource)
        query = {"fieldManager": field_manager} if field_manager else None
        return await self._ask("PATCH", path, query=query, body=patch, content_type=_PATCH_TYPES[kind])

    async def apply(
        self, resource: Resource, obj: Obj, *, manager: str, subresource: str | None = None, force: bool = True
    ) -> Obj:
        """Server-side apply: `obj` is everything that `manager` wants to own, made if missing.

        What an earlier apply of the same manager set and this one leaves out is removed. Without `force`, a field that
        another manager owns with another value is a Conflict.
        """
        path = resource.path(name_of(obj), namespace_of(obj) or None, subresource)
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        return await self._ask("PATCH", path, query=query, body=_typed(resource, obj), content_type=_APPLY_TYPE)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace_period: int | None = None,
        uid: str | None = None,
    ) -> None:
        """Ask for deletion; an object that is not there is a success. With `uid`, another one of that name is spared
        (Conflict)."""
        options: Obj = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._transport.request("DELETE", resource.path(name, namespace), body=options)
        except NotFound:
            return

    async def raw(self, path: str, *, seconds: float = REQUEST_SECONDS) -> bytes:
        """The body at any path of the server: ``/readyz``, ``/version``, ``/metrics``."""
        return await self._transport.request("GET", path, seconds=seconds)

    async def _ask(self, method: str, path: str, **options: Any) -> Obj:
        answer = await self._transport.request(method, path, **options)
        try:
            obj: Obj = orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            raise Unreachable(self.server, "what answers there is not a Kubernetes API server") from error
        return obj

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str | None = None,
    ) -> Objs:
        """Every object, as of one moment, read in pages.

        The moment is now; with a `resource_version` it is any that is no older. That answer comes out of the API
        server's own copy at once, where "now" first waits until the copy has heard from etcd, for up to 100 ms.
        """
        for limit in (PAGE, PAGE, WHOLE):
            objects: Objs = []
            try:
                async for page, _version in self.pages(
                    resource,
                    namespace,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    resource_version=resource_version,
                    limit=limit,
                ):
                    objects += page
            except Gone as error:
                forgotten = error  # the moment we were reading was compacted away under us: read a later one
            else:
                return objects
        raise forgotten

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str | None = None,
        limit: int = PAGE,
    ) -> AsyncGenerator[tuple[Objs, str]]:
        """Each page and the version of the whole list. Raises Gone when the pages outlive the server's memory of it."""
        query = _selectors(label_selector, field_selector) | {"limit": str(limit)}
        if resource_version is not None:
            query |= {"resourceVersion": resource_version, "resourceVersionMatch": "NotOlderThan"}
        while True:
            page, version, token = await self._page(resource, namespace, query)
            yield page, version
            if not token:
                return
            query.pop("resourceVersion", None)
            query.pop("resourceVersionMatch", None)
            query["continue"] = token

    async def _page(self, resource: Resource, namespace: str | None, query: dict[str, str]) -> tuple[Objs, str, str]:
        path = resource.path(namespace=namespace)
        answer = await self._ask("GET", path, query=query, seconds=_LIST_SECONDS)
        metadata = answer["metadata"]
        items: Objs = answer.get("items") or []
        for item in items:  # a list names its items' kind only once
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        return items, metadata["resourceVersion"], metadata.get("continue") or ""

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        version: str,
        label_selector: str = "",
        field_selector: str = "",
        seconds: int = 300,
        silence: float = 100.0,
    ) -> AsyncIterator[AsyncIterator[Frame]]:
        """Every change after `version`, as the server tells of it, bookmarks included.

        Entered once the server has agreed. The iteration ends when the server ends it (after `seconds`, or whenever it
        likes) and raises Unreachable when the connection breaks or nothing, not even a bookmark, comes for `silence`
        seconds. An ERROR frame is the caller's to read.
        """
        query = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        path = resource.path(namespace=namespace)
        async with self._transport.stream(path, query=query, silence=silence) as chunks:
            yield frames(chunks)


def _typed(resource: Resource, obj: Obj) -> Obj:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    query = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: selector for name, selector in query.items() if selector}
