"""Per-card fit, as labels of a node: what topology-aware scheduling cannot see in a node's sums.

A node's free units may lie spread over cards of which none fits the slice, and its free shares on fewer cards than a
request names. Two numbers per model say so, and a Workload pinned by them skips the node: the most units free on one
card that still has a slot, and how many cards can still grant a share.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpustack_ctl.accel.cards import Occupancy
from gpustack_ctl.accel.labels import SHARED_FIT_PREFIX, SLICED_FIT_PREFIX


def fit_labels(cards: Iterable[Occupancy]) -> dict[str, str]:
    """The fit labels of a node with these cards; a model has those that its healthy cards' populations call for."""
    most_units: dict[str, int] = {}
    sharing: dict[str, int] = {}
    for occupancy in cards:
        card = occupancy.card
        if not card.healthy or card.partitioned:
            continue
        akey = card.akey
        sharing[akey] = sharing.get(akey, 0) + (occupancy.shares_free > 0)
        if card.sliceable:
            units = occupancy.remaining if occupancy.fits_slice(0) else 0
            most_units[akey] = max(most_units.get(akey, 0), units)
    return {
        **{SLICED_FIT_PREFIX + akey: str(units) for akey, units in sorted(most_units.items())},
        **{SHARED_FIT_PREFIX + akey: str(count) for akey, count in sorted(sharing.items())},
    }
