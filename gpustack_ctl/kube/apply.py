"""Deciding whether a write would change anything.

A controller that writes only what differs from its informer's copy is quiet on a settled cluster, and its writes in the
audit log are all news. The comparison is one-sided, as ownership is: what we do not say, others may.
"""

from collections.abc import Mapping
from typing import Any


def subset_equal(desired: Any, live: Any) -> bool:
    """Whether everything `desired` says already holds in `live`; what `desired` leaves unsaid does not matter.

    Maps are compared key by key, lists whole and in order (their maps again key by key), None equals absent. An empty
    map is not an absent one: as a selector the one takes everything and the other nothing. Values are compared as they
    are written, so say a quantity the way the server writes it back.
    """
    if isinstance(desired, Mapping):
        return isinstance(live, Mapping) and all(subset_equal(value, live.get(key)) for key, value in desired.items())
    if isinstance(desired, list | tuple):
        return isinstance(live, list) and len(desired) == len(live) and all(map(subset_equal, desired, live))
    return bool(desired == live) and isinstance(desired, bool) == isinstance(live, bool)
