"""Pace: how often a key may be acted on.

What follows from many objects at once (the plan of all nodes, a pool's views) would, in a burst, be worked out anew for
every single change. With a pace the first change is answered at once, and those that follow share one answer at the
end of the window. Only what succeeded sets the pace: what failed is retried by its own backoff.
"""

from time import monotonic


class Pace:
    """At most one success per key in `window` seconds."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._last: dict[str, float] = {}

    def early(self, key: str) -> float:
        """Seconds until the key may go again; 0 when it may now."""
        last = self._last.get(key)
        return 0 if last is None else max(self._window - (monotonic() - last), 0)

    def went(self, key: str) -> None:
        """The key was acted on."""
        self._last[key] = monotonic()

    def forget(self, key: str) -> None:
        """The key is gone for good."""
        self._last.pop(key, None)
