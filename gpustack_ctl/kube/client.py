"""The API server's verbs on plain objects."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import Resource

PatchKind = Literal["merge", "json", "strategic"]


class Kube:
    """One connection to one API server; cheap to share, safe to use from every task of the process."""

    server: str

    @classmethod
    def connect(
        cls, *, kubeconfig: str | None = None, context: str | None = None, user_agent: str = "gpustack-ctl"
    ) -> AbstractAsyncContextManager["Kube"]:
        raise NotImplementedError

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Obj:
        raise NotImplementedError

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str | None = None,
    ) -> list[Obj]:
        raise NotImplementedError

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        raise NotImplementedError

    async def replace(self, resource: Resource, obj: Obj, *, subresource: str | None = None) -> Obj:
        raise NotImplementedError

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
        raise NotImplementedError

    async def apply(
        self, resource: Resource, obj: Obj, *, manager: str, subresource: str | None = None, force: bool = True
    ) -> Obj:
        raise NotImplementedError

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace_period: int | None = None,
        uid: str | None = None,
    ) -> None:
        raise NotImplementedError

    async def raw(self, path: str) -> bytes:
        """The body at any path of the server (``/readyz``, ``/metrics``, ``/version``)."""
        raise NotImplementedError

    def watch(self, resource: Resource, **options: Any) -> AsyncIterator[tuple[str, Obj]]:
        raise NotImplementedError
