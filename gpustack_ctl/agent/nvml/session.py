"""The one door to NVML.

Its calls block, some for as long as the hardware takes, so they run in a worker thread, one piece of work at a time.
Waiting for an event has a lane of its own: it sleeps inside the library, which allows other calls meanwhile, and an
allocation must not queue behind it. Handles belong to one opening of the library, so no piece of work keeps any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import pynvml
from anyio import to_thread

T = TypeVar("T")


class NvmlError(Exception):
    """A call that NVML answered with an error. `code` is NVML's own number for it."""

    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"{call}: {text}")
        self.code = code


class Nvml:
    """The library as this process holds it: opened by the first work, and again after `close`."""

    def __init__(self) -> None:
        self._calls = anyio.CapacityLimiter(1)
        self._waits = anyio.CapacityLimiter(1)
        self._open = False

    async def run(self, work: Callable[[], T]) -> T:
        """Do a piece of work with the library open. Raises NvmlError."""
        return await to_thread.run_sync(self._opened, work, limiter=self._calls)

    async def wait(self, work: Callable[[], T]) -> T:
        """Do what sleeps inside the library, beside other work. It cannot be cut short: let it sleep briefly."""
        return await to_thread.run_sync(work, limiter=self._waits)

    async def close(self) -> None:
        """Give the library up; whatever it still held with the driver is let go."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._close, limiter=self._calls)

    def _opened(self, work: Callable[[], T]) -> T:
        if not self._open:
            ask(pynvml.nvmlInit)
            self._open = True
        return work()

    def _close(self) -> None:
        if self._open:
            self._open = False
            try_ask(None, pynvml.nvmlShutdown)


def ask(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call NVML. Raises NvmlError, which names the call."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        raise NvmlError(call.__name__, error.value, str(error)) from error


def ask_if_known(default: Any, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call NVML for something that not every driver or card tells; `default` where this one does not."""
    try:
        return ask(call, *arguments)
    except NvmlError as error:
        if error.code in _NOT_TOLD:
            return default
        raise


def try_ask(default: Any, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call NVML where every error means the same: there is nothing to be had."""
    try:
        return ask(call, *arguments)
    except NvmlError:
        return default


_NOT_TOLD = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_NO_DATA,
    }
)
