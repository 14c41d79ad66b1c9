"""Informers: a local, always current copy of each resource, shared by everybody in the process.

However many controllers, webhooks and agents of a process want the Pods, there is one watch and one copy of them.
`Informers.of` is how one asks; the same question always gets the same informer.
"""

import anyio
from anyio.abc import TaskGroup, TaskStatus

from gpustack_ctl.kube import metrics
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.reflector import SILENCE_SECONDS, Outlook, Reflector, Selection
from gpustack_ctl.kube.resources import Resource
from gpustack_ctl.kube.store import Handler, IndexOf, Store, Transform

__all__ = ["Handler", "IndexOf", "Informer", "Informers", "Transform"]


class Informer(Store):
    """The copy of one selection of a resource; see `Store` for reading, indexes, handlers and `observe`."""

    def __init__(self, selection: Selection, *, keep: Transform | None = None) -> None:
        super().__init__(keep=keep, partial=selection.partial)
        self.selection = selection
        self.keep = keep
        self._listed = anyio.Event()
        metrics.informer_objects.labels(str(selection)).set_function(self.__len__)

    @property
    def resource(self) -> Resource:
        return self.selection.resource

    @property
    def synced(self) -> bool:
        """Whether the copy has been complete once; it stays so through outages, growing old instead of empty."""
        return self._listed.is_set()

    async def wait_synced(self) -> None:
        await self._listed.wait()

    async def run(self, kube: Kube, *, outlook: Outlook, silence: float) -> None:
        """Keep the copy current until cancelled; `Informers` does this."""
        await Reflector(kube, self.selection, self, listed=self._listed, outlook=outlook, silence=silence).run()


class Informers:
    """The informers of one process, over one connection."""

    def __init__(self, kube: Kube, *, silence: float = SILENCE_SECONDS) -> None:
        """`silence` is how many seconds a watch may say nothing before it is opened anew."""
        self._kube = kube
        self._silence = silence
        self._outlook = Outlook(kube.server)
        self._informers: dict[Selection, Informer] = {}
        self._tasks: TaskGroup | None = None

    def of(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        keep: Transform | None = None,
    ) -> Informer:
        """The informer of that selection, made at the first call, before or after `run`.

        `keep` takes an object as it arrives and returns what is worth memory. There is one copy for everybody, so all
        who ask must agree on it: another `keep` for a selection that exists is a ValueError.
        """
        selection = Selection(resource, namespace, label_selector, field_selector)
        informer = self._informers.get(selection)
        if informer is None:
            informer = self._informers[selection] = Informer(selection, keep=keep)
            self._start(informer)
        elif informer.keep is not keep:
            raise ValueError(f"{selection} is informed of already, with another idea of what to keep")
        return informer

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run every watch, also of informers asked for later, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            try:
                for informer in self._informers.values():
                    self._start(informer)
                task_status.started()
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    async def wait_synced(self, *informers: Informer) -> None:
        """Until those informers, or all that exist, have been complete once."""
        for informer in informers or (*self._informers.values(),):
            await informer.wait_synced()

    @property
    def synced(self) -> bool:
        return all(informer.synced for informer in self._informers.values())

    def _start(self, informer: Informer) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._run, informer, name=f"watch {informer.selection}")

    async def _run(self, informer: Informer) -> None:
        await informer.run(self._kube, outlook=self._outlook, silence=self._silence)
