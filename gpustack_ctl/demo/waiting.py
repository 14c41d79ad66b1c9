"""Waiting with a name and a bound: a step of the story that does not come true says what it was waiting for."""

from collections.abc import Callable
from typing import TypeVar

import anyio

T = TypeVar("T")

_POLL = 0.02


class StepError(Exception):
    """A step of the story did not come true: which one, and what was there instead."""

    def __init__(self, step: str, saw: str) -> None:
        super().__init__(f"{step}: {saw}")
        self.step, self.saw = step, saw


async def until(
    step: str, true: Callable[[], T | None], *, seconds: float, saw: Callable[[], str] = lambda: "nothing of the kind"
) -> T:
    """Wait until `true()` gives something; raise StepError with what `saw()` says after `seconds`.

    It asks the informers' local copies, so asking often costs the cluster nothing.
    """
    with anyio.move_on_after(seconds):
        while True:
            if (found := true()) is not None and found is not False:
                return found
            await anyio.sleep(_POLL)
    raise StepError(step, f"after {seconds:g} s: {saw()}")
