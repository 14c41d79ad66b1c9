"""A controller's work queue: keys, not events.

A key says "look at this again"; ten reasons to look are one look. A key that is being looked at is never handed out a
second time, and one that was added meanwhile is handed out again afterwards, so no change goes unseen.
"""

import asyncio
import heapq
from collections import deque

import anyio

from gpustack_ctl.kube import metrics
from gpustack_ctl.kube.backoff import Backoff

RETRY_FIRST_SECONDS = 0.1
RETRY_CAP_SECONDS = 60.0


class QueueClosedError(Exception):
    """The queue was closed; there is no more work."""


class WorkQueue:
    """Add from anywhere on the event loop; take with `get`, and answer each with `done`."""

    def __init__(
        self, name: str, *, retry_first: float = RETRY_FIRST_SECONDS, retry_cap: float = RETRY_CAP_SECONDS
    ) -> None:
        self._depth = metrics.queue_depth.labels(name)
        self._retries = metrics.queue_retries.labels(name)
        self._retry_first = retry_first
        self._retry_cap = retry_cap
        self._ready: deque[str] = deque()
        self._waiting: set[str] = set()  # in _ready, or to be put there when done
        self._in_hand: set[str] = set()
        self._backoffs: dict[str, Backoff] = {}
        self._due: dict[str, float] = {}
        self._timetable: list[tuple[float, str]] = []  # may hold entries that an earlier deadline has replaced
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._changed = anyio.Event()

    def __len__(self) -> int:
        """Keys ready to be taken."""
        return len(self._ready)

    def add(self, key: str) -> None:
        """Have `key` looked at as soon as a worker is free."""
        if self._closed or key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._in_hand:
            self._make_ready(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Have `key` looked at in so many seconds, or at the earlier moment that was asked for before."""
        if seconds <= 0:
            self.add(key)
            return
        due = asyncio.get_running_loop().time() + seconds
        if self._closed or self._due.get(key, due + 1) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._timetable, (due, key))
        self._set_timer()

    def add_backoff(self, key: str) -> float:
        """Have `key` looked at after its own backoff, which grows until `forget`; answers with the seconds."""
        backoff = self._backoffs.get(key)
        if backoff is None:
            backoff = self._backoffs[key] = Backoff(first=self._retry_first, cap=self._retry_cap)
        seconds = backoff.next()
        self._retries.inc()
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: str) -> None:
        """The key is well: its next failure waits the shortest time again."""
        self._backoffs.pop(key, None)

    async def get(self) -> str:
        """The key that waits longest. Raises QueueClosedError when the queue is closed, even if keys are left."""
        while not self._closed:
            if self._ready:
                key = self._ready.popleft()
                self._depth.set(len(self._ready))
                self._waiting.discard(key)
                self._in_hand.add(key)
                return key
            await self._changed.wait()
        raise QueueClosedError

    def done(self, key: str) -> None:
        """The look at `key` is over; if it was added meanwhile, it is ready again."""
        self._in_hand.discard(key)
        if key in self._waiting and not self._closed:
            self._make_ready(key)

    def close(self) -> None:
        """Hand out no more. Keys in hand may be finished."""
        self._closed = True
        self._ready.clear()
        self._depth.set(0)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake()

    def _make_ready(self, key: str) -> None:
        self._ready.append(key)
        self._depth.set(len(self._ready))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._timetable:
            self._timer = asyncio.get_running_loop().call_at(self._timetable[0][0], self._ring)

    def _ring(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._timetable and self._timetable[0][0] <= now:
            due, key = heapq.heappop(self._timetable)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        self._set_timer()
