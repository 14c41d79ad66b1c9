"""A few objects of the API server that are kept as they should be.

Each is applied whenever it differs from what is wanted: at start, when somebody edits or deletes it, and when
what is wanted changes. This is the leader's work: during an upgrade, replicas of two versions would otherwise
undo each other's forever.
"""

from collections.abc import Callable, Mapping

import anyio
import structlog

from gpustack_ctl.kube.apply import subset_equal
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import KubeError
from gpustack_ctl.kube.informer import Informer, Informers
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import Resource

log = structlog.get_logger()

# Changes come in twos, ours included: one look after the last is enough for both.
_SETTLE_SECONDS = 0.1
_RETRY_SECONDS = (1.0, 2.0, 5.0, 15.0, 30.0)


class Upkeep:
    """Keeps one cluster-scoped object of each of several resources as `wanted` says, until cancelled.

    `names` says which object of a resource it is. `wanted` may answer None for one of which nothing can be said yet;
    `wake` announces that it would answer something else now.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        informers: Informers,
        manager: str,
        names: Mapping[Resource, str],
        wanted: Callable[[Resource], Obj | None],
    ) -> None:
        self._kube = kube
        self._manager = manager
        self._names = names
        self._wanted = wanted
        self._live: dict[Resource, Informer] = {
            resource: informers.of(resource, field_selector=f"metadata.name={name}") for resource, name in names.items()
        }
        self._changed = anyio.Event()

    def wake(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        unsubscribes = [informer.subscribe(lambda _old, _new: self.wake()) for informer in self._live.values()]
        try:
            for informer in self._live.values():
                await informer.wait_synced()
            failures = 0
            while True:
                self._changed = anyio.Event()
                failures = 0 if await self._apply() else failures + 1
                # Nothing that we wait for announces the end of a failure, so a failure is tried again by the clock.
                retry = _RETRY_SECONDS[min(failures, len(_RETRY_SECONDS)) - 1] if failures else None
                with anyio.move_on_after(retry):
                    await self._changed.wait()
                await anyio.sleep(_SETTLE_SECONDS)
        finally:
            for unsubscribe in unsubscribes:
                unsubscribe()

    async def _apply(self) -> bool:
        try:
            for resource, name in self._names.items():
                await self._apply_one(resource, name)
        except KubeError as cause:
            log.warning("cannot apply", manager=self._manager, cause=str(cause))
            return False
        return True

    async def _apply_one(self, resource: Resource, name: str) -> None:
        wanted = self._wanted(resource)
        if wanted is None:
            return
        live = self._live[resource].get(name)
        if live is not None and subset_equal(wanted, live):
            return
        log.info("applying", kind=resource.kind, name=name, new=live is None)
        self._live[resource].observe(await self._kube.apply(resource, wanted, manager=self._manager))
