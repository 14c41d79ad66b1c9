"""The four views of a pool: what a person may still ask for, as whole cards, shares, slices and partitions.

Each card feeds exactly one side: whole, shared and sliced count cards that are not partitioned, partitioned counts the
rest. A view has three numbers because a sum misleads: ``remaining`` is what the pool has left, ``once_max_request``
the most that one request can get, bounded by one node (whole, shared) or one card (sliced, partitioned).

A pool keeps a contribution per node and running sums, so that one allocation costs one node's cards, whatever the size
of the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpustack_ctl.accel.cards import CardState


@dataclass(frozen=True, slots=True)
class View:
    """One view: ``once_max_request`` of ``remaining`` of ``capacity``."""

    once_max_request: int = 0
    remaining: int = 0
    capacity: int = 0

    @property
    def printed(self) -> str:
        """``onceMaxRequest/remaining``, as the column shows it."""
        return f"{self.once_max_request}/{self.remaining}"

    def status(self) -> dict[str, str]:
        """The view as a status field."""
        return {
            "onceMaxRequest": str(self.once_max_request),
            "remaining": str(self.remaining),
            "capacity": str(self.capacity),
        }


@dataclass(frozen=True, slots=True)
class FourViews:
    """The four views of a pool and its partitions by profile."""

    exclusive: View = View()
    shared: View = View()
    sliced: View = View()
    partitioned: View = View()
    allocated_profiles: Mapping[str, int] = field(default_factory=dict)
    remaining_profiles: Mapping[str, int] = field(default_factory=dict)

    @property
    def printed(self) -> str:
        """The four pairs: ``1/1 1/10 100/100 0/0``."""
        return " ".join(view.printed for view in (self.exclusive, self.shared, self.sliced, self.partitioned))

    @property
    def partitions(self) -> str:
        """Every profile offered with what is left of it: ``1g.10gb=7 3g.40gb=2``."""
        return " ".join(f"{name}={count}" for name, count in sorted(self.remaining_profiles.items()))

    def status(self) -> dict[str, Any]:
        """The ``accelerator…`` fields of ``InstanceType.status``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class NodeContribution:
    """What one node adds to a pool's views."""

    whole: int = 0
    whole_free: int = 0
    shares_free: int = 0
    shared_cards_free: int = 0
    sliceable: int = 0
    percent_free: int = 0
    percent_freest: int = 0
    partitions: int = 0
    partitions_free: int = 0
    allocated_profiles: Mapping[str, int] = field(default_factory=dict)
    remaining_profiles: Mapping[str, int] = field(default_factory=dict)


def contribution(states: Iterable[CardState]) -> NodeContribution:
    """What one node's cards of the pool's model add. Give it only the cards of that model."""
    raise NotImplementedError


class PoolViews:
    """The views of one pool, kept per node: ``update`` costs one node, ``views`` a handful of sums."""

    def update(self, node: str, contributed: NodeContribution | None) -> bool:
        """Take a node's new contribution, or None when it left the pool; says whether anything changed."""
        raise NotImplementedError

    def views(self) -> FourViews:
        """The four views now."""
        raise NotImplementedError
