"""Waiting for programs that tell nobody when they are ready: ask again until they are, never for ever."""

from collections.abc import Awaitable, Callable

import anyio


async def until(holds: Callable[[], Awaitable[bool]], *, seconds: float, every: float = 0.05) -> bool:
    """Ask until the answer is yes; False when it was not within ``seconds``."""
    with anyio.move_on_after(seconds):
        while not await holds():  # noqa: ASYNC110 (whoever is asked knows nothing of our events)
            await anyio.sleep(every)
        return True
    return False
