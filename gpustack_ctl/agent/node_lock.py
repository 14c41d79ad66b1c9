"""The node's lock: one decision about this node's cards at a time, and a measure of how long each takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import anyio

from gpustack_ctl.agent import metrics


class NodeLock:
    """Held from finding out whose turn it is until the promise is on the disk; never for a write to the cluster."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        async with self._lock:
            since = perf_counter()
            try:
                yield
            finally:
                metrics.lock_seconds.observe(perf_counter() - since)
