"""Keeping a store true to the API server: list once, then watch for ever, whatever happens in between.

The order of things is what makes it lossless. A list names the version it shows; the watch starts from exactly there;
after any interruption the next watch starts from the last version that was told. Only when the server has forgotten
that version (410) is there another list, and its differences to the store are what happened meanwhile.
"""

from contextlib import aclosing
from dataclasses import dataclass, field
from random import randint
from time import monotonic

import anyio
import structlog

from gpustack_ctl.kube import metrics
from gpustack_ctl.kube.backoff import Backoff
from gpustack_ctl.kube.client import PAGE, WHOLE, Kube
from gpustack_ctl.kube.errors import Gone, KubeError, Unreachable, error_of
from gpustack_ctl.kube.objects import Objs, version_of
from gpustack_ctl.kube.resources import Resource
from gpustack_ctl.kube.store import Store
from gpustack_ctl.kube.stream import Frame

_log = structlog.get_logger()

SILENCE_SECONDS = 100.0
"""The API server sends a bookmark every minute if it has nothing else to say. A watch that said nothing for this long
has missed one: the connection is dead, whatever TCP believes."""

_STEADY_SECONDS = 10.0  # a watch that held for so long was a good one, even if it had nothing to tell
_RELIST_AFTER = 5  # refusals in a row to resume, none of them a 410: something is wrong with the version we ask from


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a resource; the same selection is the same watch."""

    resource: Resource
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""

    @property
    def partial(self) -> bool:
        """Whether objects of this resource exist that do not belong to it."""
        return bool(self.namespace or self.label_selector or self.field_selector)

    def __str__(self) -> str:
        parts = [
            str(self.resource),
            self.namespace and f"in {self.namespace}",
            self.label_selector,
            self.field_selector,
        ]
        return " ".join(part for part in parts if part)


@dataclass(slots=True)
class Outlook:
    """What the operator was last told of the connection, so that each change is told once and retries are not."""

    server: str
    _lost_at: float | None = None
    _refused: dict[Selection, str] = field(default_factory=dict)

    def failed(self, selection: Selection, error: KubeError) -> None:
        if isinstance(error, Unreachable):
            if self._lost_at is None:
                self._lost_at = monotonic()
                _log.warning("the API server cannot be reached; retrying", server=self.server, cause=error.cause)
            return
        self._reached()
        kind = f"{type(error).__name__} {getattr(error, 'status', '')}"
        if self._refused.get(selection) != kind:
            self._refused[selection] = kind
            _log.warning("the API server refuses a watch; retrying", watch=str(selection), error=str(error))

    def works(self, selection: Selection) -> None:
        self._reached()
        if self._refused.pop(selection, None) is not None:
            _log.info("the API server serves a watch again", watch=str(selection))

    def _reached(self) -> None:
        if self._lost_at is not None:
            seconds = round(monotonic() - self._lost_at, 1)
            self._lost_at = None
            _log.info("the API server is reached again", server=self.server, after_seconds=seconds)


class Reflector:
    """One watch, and the store it keeps; `listed` is set when that is complete for the first time."""

    def __init__(
        self,
        kube: Kube,
        selection: Selection,
        store: Store,
        *,
        listed: anyio.Event,
        outlook: Outlook,
        silence: float = SILENCE_SECONDS,
    ) -> None:
        self._kube = kube
        self._selection = selection
        self._store = store
        self._outlook = outlook
        self._silence = silence
        self._listed = listed
        self._backoff = Backoff(first=0.1, cap=10)
        self._refusals = 0
        self._page = PAGE

    async def run(self) -> None:
        """Until cancelled. No failure of the server or the network ends it."""
        current = False  # whether the store's version is one to resume from
        while True:
            try:
                if not current:
                    await self._list()
                    current = True
                await self._watch()
            except Gone:
                current = False
            except Unreachable as error:
                self._outlook.failed(self._selection, error)
            except KubeError as error:
                self._outlook.failed(self._selection, error)
                self._refusals += 1
                current = current and self._refusals % _RELIST_AFTER != 0
            await anyio.sleep(self._backoff.next())

    async def _list(self) -> None:
        selection, store = self._selection, self._store
        metrics.informer_lists.labels(str(selection)).inc()
        listed: Objs = []
        version = 0
        pages = self._kube.pages(
            selection.resource,
            selection.namespace,
            label_selector=selection.label_selector,
            field_selector=selection.field_selector,
            limit=self._page,
        )
        try:
            async with aclosing(pages):
                async for page, listed_version in pages:
                    version = int(listed_version)
                    listed += [store.kept(obj) for obj in page]
        except Gone:
            self._page = WHOLE  # these pages were forgotten before they were read; the next list is one page
            raise
        self._page = PAGE
        self._outlook.works(selection)
        store.replace(listed, version)
        self._listed.set()

    async def _watch(self) -> None:
        selection = self._selection
        metrics.informer_watches.labels(str(selection)).inc()
        async with self._kube.watch(
            selection.resource,
            selection.namespace,
            version=str(self._store.version),
            seconds=randint(300, 600),  # noqa: S311 — watches opened together must not all end together
            silence=self._silence,
            label_selector=selection.label_selector,
            field_selector=selection.field_selector,
        ) as frames:
            self._outlook.works(selection)
            opened = monotonic()
            try:
                async for frame in frames:
                    self._take(frame)
            except Unreachable as cut:
                _log.debug("a watch was cut; resuming", watch=str(selection), cause=cut.cause)
            if monotonic() - opened > _STEADY_SECONDS:
                self._backoff.reset()

    def _take(self, frame: Frame) -> None:
        if frame.kind == "ERROR":
            raise error_of(frame.object)
        self._backoff.reset()
        self._refusals = 0
        match frame.kind:
            case "ADDED" | "MODIFIED":
                self._store.put(frame.object)
            case "DELETED":
                self._store.remove(frame.object)
            case "BOOKMARK":
                self._store.advance(version_of(frame.object))
