"""Topology profiles: the shape of the hierarchy that a node is labelled with.

Kueue places by topology only where every node of a flavor fills the same levels. Nodes are therefore told apart by
which levels they fill, not by the values: the longest prefix of the configured levels, always ending in the hostname.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.naming import fnv64, topology_name

#: Levels above the hostname that are looked for, outermost first, unless configured otherwise.
DEFAULT_LEVELS: tuple[str, ...] = ()
#: What Kueue's schema allows, the hostname among them.
MOST_LEVELS = 16


@dataclass(frozen=True, slots=True)
class TopologyProfile:
    """The levels a node fills, outermost first, ending in the hostname."""

    levels: tuple[str, ...] = (labels.HOSTNAME,)

    @property
    def value(self) -> str:
        """The label value that nodes of this shape share."""
        return f"fnv64-{fnv64(chr(0).join(self.levels))}"

    @property
    def hostname_only(self) -> bool:
        return self.levels == (labels.HOSTNAME,)


def read_levels(text: str) -> tuple[str, ...]:
    """The levels above the hostname from a comma-separated list of label keys, outermost first.

    Raises ValueError for what is no label key, and for more levels than a Kueue Topology holds.
    """
    levels = tuple(dict.fromkeys(level.strip() for level in text.split(",") if level.strip()))
    for level in levels:
        if not _LABEL_KEY.fullmatch(level) or level == labels.HOSTNAME:
            raise ValueError(f"{level!r} is no level: write label keys above {labels.HOSTNAME}, outermost first")
    if len(levels) >= MOST_LEVELS:
        raise ValueError(f"{len(levels)} levels and the hostname are too many: a Topology has {MOST_LEVELS}")
    return levels


def topology_profile(node_labels: Mapping[str, str], levels: Sequence[str] = DEFAULT_LEVELS) -> TopologyProfile:
    """The shape of a node: a level counts only while all levels above it are filled as well."""
    filled: list[str] = []
    for level in levels:
        if level == labels.HOSTNAME or not node_labels.get(level):
            break
        filled.append(level)
    return TopologyProfile((*filled, labels.HOSTNAME))


def topology(profile: TopologyProfile) -> dict[str, Any]:
    """The Kueue Topology that flavors of this shape refer to."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Topology",
        "metadata": {"name": topology_name(profile.value)},
        "spec": {"levels": [{"nodeLabel": level} for level in profile.levels]},
    }


_LABEL_KEY = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII
)
