"""How long to wait before trying again: longer each time, never in step with others."""

from random import uniform


class Backoff:
    """Doubling waits from `first` to `cap` seconds, each drawn from the upper half of its step."""

    def __init__(self, *, first: float, cap: float) -> None:
        self._first = first
        self._cap = cap
        self._step = first

    def next(self) -> float:
        step, self._step = self._step, min(self._step * 2, self._cap)
        return uniform(step / 2, step)  # noqa: S311 — keeps a thousand clients apart, guards nothing

    def reset(self) -> None:
        self._step = self._first
