"""A local, always current copy of a resource, shared by everybody in the process."""

from collections.abc import Callable, Iterable

import anyio
from anyio.abc import TaskStatus

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import Resource

Handler = Callable[[Obj | None, Obj | None], None]
Transform = Callable[[Obj], Obj]


class Informer:
    resource: Resource
    synced: bool

    def get(self, key: str) -> Obj | None:
        raise NotImplementedError

    def list(self) -> list[Obj]:
        raise NotImplementedError

    def add_index(self, name: str, of: Callable[[Obj], Iterable[str]]) -> None:
        """May be added at any time; adding the same function again under the same name changes nothing."""
        raise NotImplementedError

    def by_index(self, name: str, value: str) -> list[Obj]:
        raise NotImplementedError

    def subscribe(self, handler: Handler) -> Callable[[], None]:
        """Call `handler(old, new)` for every change, after replaying what is there as (None, obj). Sync, never blocks."""
        raise NotImplementedError

    def observe(self, obj: Obj) -> None:
        """Put the answer of one's own write into the copy, unless it already holds something newer."""
        raise NotImplementedError

    async def wait_synced(self) -> None:
        raise NotImplementedError


class Informers:
    def __init__(self, kube: Kube) -> None:
        raise NotImplementedError

    def of(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        keep: Transform | None = None,
    ) -> Informer:
        raise NotImplementedError

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        raise NotImplementedError

    async def wait_synced(self, *informers: Informer) -> None:
        raise NotImplementedError

    @property
    def synced(self) -> bool:
        raise NotImplementedError
