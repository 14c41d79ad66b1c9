"""The frame of a controller: what wakes it, and one reconcile.

A subclass says which changes make which keys worth a look (`wakes`) and what to do about a key (`reconcile`), reading
from informers and writing through the client. All the rest is here: the queue, the workers, retries, and an end that
lets the key in hand be finished.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar

import anyio
import structlog
from anyio.abc import TaskStatus

from gpustack_ctl.kube import metrics
from gpustack_ctl.kube.errors import Conflict, KubeError, Unreachable
from gpustack_ctl.kube.informer import Handler, Informer
from gpustack_ctl.kube.objects import Obj, key_of
from gpustack_ctl.kube.queue import QueueClosedError, WorkQueue

_log = structlog.get_logger()

DRAIN_SECONDS = 3.0
"""How long a key in hand may take to finish once the controller was told to end. It is shorter than the time between
giving up a lease and its expiry, so that work begun as leader ends before another one begins."""


@dataclass(frozen=True, slots=True)
class Result:
    """What follows a reconcile that did not fail: nothing, or another look after so many seconds."""

    after: float | None = None


DONE = Result()


def again(seconds: float) -> Result:
    """Nothing failed, but time will change the answer: look again then."""
    return Result(after=seconds)


@dataclass(frozen=True, slots=True)
class Wake:
    """Changes of one informer, and the keys that each makes worth a look."""

    informer: Informer
    keys: Callable[[Obj | None, Obj | None], Iterable[str]]


def changes(
    informer: Informer,
    *,
    key: Callable[[Obj], str | Iterable[str]] = key_of,
    when: Callable[[Obj | None, Obj | None], bool] | None = None,
) -> Wake:
    """Every change wakes the key, or keys, of the object as it was and as it is; with `when`, only if it says so."""

    def keys(old: Obj | None, new: Obj | None) -> Iterable[str]:
        if when is not None and not when(old, new):
            return
        for obj in (old, new):
            if obj is None:
                continue
            found = key(obj)
            if isinstance(found, str):
                yield found
            else:
                yield from found

    return Wake(informer, keys)


class Controller(ABC):
    """Subclass, give it a `name`, and `run` it in a task of its own."""

    name: ClassVar[str]
    workers: ClassVar[int] = 1

    @abstractmethod
    def wakes(self) -> Iterable[Wake]:
        """The changes that matter. A controller may also put keys into `self.queue` itself while it runs."""

    @abstractmethod
    async def reconcile(self, key: str) -> Result:
        """Bring what `key` names to what it should be. Called for one key at a time, with every informer synced.

        It may find the key's object gone, or nothing to do. An exception makes the key wait and be tried again.
        """

    queue: WorkQueue

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled; then the keys in hand are finished, within DRAIN_SECONDS."""
        self.queue = WorkQueue(self.name)
        self._hands: set[anyio.CancelScope] = set()
        self._troubles: dict[str, str] = {}
        wakes = [*self.wakes()]
        unsubscribes = [wake.informer.subscribe(self._handler(wake)) for wake in wakes]
        try:
            for wake in wakes:
                await wake.informer.wait_synced()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._drain_when_cancelled)
                for _ in range(self.workers):
                    tasks.start_soon(self._work, name=f"controller {self.name}")
                task_status.started()
        finally:
            for unsubscribe in unsubscribes:
                unsubscribe()
            self.queue.close()

    def _handler(self, wake: Wake) -> Handler:
        def handle(old: Obj | None, new: Obj | None) -> None:
            for key in wake.keys(old, new):
                self.queue.add(key)

        return handle

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosedError:
                return
            with anyio.CancelScope(shield=True) as hand:
                self._hands.add(hand)
                try:
                    await self._look(key)
                finally:
                    self._hands.discard(hand)
                    self.queue.done(key)

    async def _drain_when_cancelled(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.queue.close()
            for hand in self._hands:
                hand.deadline = anyio.current_time() + DRAIN_SECONDS

    async def _look(self, key: str) -> None:
        started = perf_counter()
        try:
            result = await self.reconcile(key)
        except Exception as error:  # noqa: BLE001 — a key's failure is told, counted and retried, never the end of all
            self._failed(key, error)
            return
        finally:
            metrics.reconcile_seconds.labels(self.name).observe(perf_counter() - started)
        self._succeeded(key)
        if result.after is not None:
            self.queue.add_after(key, result.after)

    def _succeeded(self, key: str) -> None:
        self.queue.forget(key)
        if self._troubles.pop(key, None) is not None:
            _log.info("reconciled after failures", controller=self.name, key=key)

    def _failed(self, key: str, error: Exception) -> None:
        """Put the key back, and tell of the failure once for as long as it stays the same."""
        metrics.reconcile_errors.labels(self.name, type(error).__name__).inc()
        seconds = self.queue.add_backoff(key)
        if isinstance(error, Conflict | Unreachable):
            # A conflict is the ordinary price of not locking: the retry decides from what is there by then.
            # That the server is away is told by the informers, once for the process.
            _log.debug("reconcile to be repeated", controller=self.name, key=key, cause=str(error), after=seconds)
            return
        trouble = f"{type(error).__name__}: {error}"
        if self._troubles.get(key) == trouble:
            return
        self._troubles[key] = trouble
        log = _log.bind(controller=self.name, key=key, retry_after=round(seconds, 2))
        if isinstance(error, KubeError):
            log.warning("reconcile failed", error=trouble)
        else:
            log.exception("reconcile failed", exc_info=error)
