"""Deciding whether a write would change anything."""

from typing import Any


def subset_equal(desired: Any, live: Any) -> bool:
    """Whether everything `desired` says already holds in `live`; what `desired` leaves unsaid does not matter."""
    raise NotImplementedError
