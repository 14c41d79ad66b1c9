"""The counting keys of a node: units, percentages, MiB and profiles of sliced and partitioned cards.

The kubelet counts only what device plugins advertise, and no plugin advertises these, so the manager writes them into
``Node.status``. It does so only while the family's own token pool is present in the node's capacity: a node whose agent
is gone must not look full of room. Capacity and not allocatable decides, because allocatable also drops to zero when
the family is merely full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpustack_ctl.accel.cards import CardState
from gpustack_ctl.accel.families import Manufacturers


def capacity_keys(
    states: Iterable[CardState], *, advertised: Mapping[str, str], table: Manufacturers
) -> dict[str, str]:
    """The counting keys that the node should carry, given the ``capacity`` that it carries now."""
    raise NotImplementedError


def counting_keys(capacity: Mapping[str, str], table: Manufacturers) -> dict[str, str]:
    """The counting keys among the keys of a node's capacity or allocatable."""
    raise NotImplementedError


def capacity_patch(wanted: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str | None]:
    """The merge patch from what is present to what is wanted: None removes a stale key; empty when they agree."""
    return {
        **{key: value for key, value in wanted.items() if present.get(key) != value},
        **{key: None for key in present if key not in wanted},
    }
