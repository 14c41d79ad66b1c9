"""The four views of a pool: what a person may still ask for, as whole cards, shares, slices and partitions.

Each card feeds exactly one side: whole, shared and sliced count cards that are not partitioned, partitioned counts the
rest. A view has three numbers because a sum misleads: `remaining` is what the pool has left, `once_max_request`
the most that one request can get, bounded by one node (whole, shared) or one card (sliced, partitioned).

A pool keeps a contribution per node and running sums, so that one allocation costs one node's cards, whatever the size
of the pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpustack_ctl.accel.cards import Occupancy
from gpustack_ctl.accel.units import SHARES


@dataclass(frozen=True, slots=True)
class View:
    """One view: `once_max_request` of `remaining` of `capacity`."""

    once_max_request: int = 0
    remaining: int = 0
    capacity: int = 0

    @property
    def printed(self) -> str:
        """`onceMaxRequest/remaining`, as the column shows it."""
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
        """The four pairs: `1/1 1/10 100/100 0/0`."""
        return " ".join(view.printed for view in (self.exclusive, self.shared, self.sliced, self.partitioned))

    @property
    def partitions(self) -> str:
        """Every profile offered with what is left of it: `1g.10gb=7 3g.40gb=2`."""
        return " ".join(f"{name}={count}" for name, count in sorted(self.remaining_profiles.items()))

    def status(self) -> dict[str, Any]:
        """The `accelerator…` fields of `InstanceType.status`."""
        return {
            "accelerator": self.exclusive.status(),
            "acceleratorShared": self.shared.status(),
            "acceleratorSliced": self.sliced.status(),
            "acceleratorPartitioned": {
                **self.partitioned.status(),
                "allocatedProfiles": _listed(self.allocated_profiles),
                "remainingProfiles": _listed(self.remaining_profiles),
            },
        }


@dataclass(frozen=True, slots=True)
class NodeContribution:
    """What one node adds to a pool's views; `remaining_profiles` lists every profile offered, at zero too."""

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


def contribution(cards: Iterable[Occupancy]) -> NodeContribution:
    """What one node's cards of the pool's model add. Give it only the cards of that model.

    Capacity counts every card; what remains counts healthy ones.
    """
    whole = whole_free = shares_free = shared_cards_free = sliceable = percent_free = percent_freest = 0
    partitioned: list[Occupancy] = []
    for occupancy in cards:
        card = occupancy.card
        if card.partitioned:
            partitioned.append(occupancy)
            continue
        whole += 1
        sliceable += card.slots > 0
        if not card.healthy:
            continue
        whole_free += occupancy.free
        if shares := occupancy.shares_free:
            shares_free += shares
            shared_cards_free += 1
        if percent := occupancy.percent_free:
            percent_free += percent
            percent_freest = max(percent_freest, percent)
    figures = (whole, whole_free, shares_free, shared_cards_free, sliceable, percent_free, percent_freest)
    return NodeContribution(*figures, *_partitions(partitioned))


class PoolViews:
    """The views of one pool, kept per node: `update` costs one node, `views` a handful of sums."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeContribution] = {}
        self._sums = dict.fromkeys(_SUMMED, 0)
        self._allocated: Counter[str] = Counter()
        self._remaining: Counter[str] = Counter()
        self._offered: Counter[str] = Counter()
        self._most = {name: Counter[int]() for name in _MOST}

    def update(self, node: str, contributed: NodeContribution | None) -> bool:
        """Take a node's new contribution, or None when it left the pool; says whether anything changed."""
        before = self._nodes.get(node)
        if before == contributed:
            return False
        if before is not None:
            del self._nodes[node]
            self._add(before, -1)
        if contributed is not None:
            self._nodes[node] = contributed
            self._add(contributed, 1)
        return True

    def views(self) -> FourViews:
        """The four views now."""
        sums, most = self._sums, {name: max(counted, default=0) for name, counted in self._most.items()}
        partitions_free = sums["partitions_free"]
        return FourViews(
            exclusive=View(most["whole_free"], sums["whole_free"], sums["whole"]),
            shared=View(most["shared_cards_free"], sums["shares_free"], sums["whole"] * SHARES),
            sliced=View(most["percent_freest"], sums["percent_free"], sums["sliceable"] * 100),
            partitioned=View(int(partitions_free > 0), partitions_free, sums["partitions"]),
            allocated_profiles={name: self._allocated[name] for name in sorted(self._allocated)},
            remaining_profiles={name: self._remaining[name] for name in sorted(self._offered)},
        )

    def _add(self, contributed: NodeContribution, sign: int) -> None:
        for name in _SUMMED:
            self._sums[name] += sign * getattr(contributed, name)
        for name in _MOST:
            _count(self._most[name], getattr(contributed, name), sign)
        for profile, held in contributed.allocated_profiles.items():
            _count(self._allocated, profile, sign * held)
        for profile, left in contributed.remaining_profiles.items():
            self._remaining[profile] += sign * left
            _count(self._offered, profile, sign)


_SUMMED = ("whole", "whole_free", "shares_free", "sliceable", "percent_free", "partitions", "partitions_free")

#: Figures of which the pool's largest counts; kept as a tally, so that losing the largest needs no second look.
_MOST = ("whole_free", "shared_cards_free", "percent_freest")

_Counted = TypeVar("_Counted", str, int)


def _count(tally: Counter[_Counted], of: _Counted, by: int) -> None:
    tally[of] += by
    if not tally[of]:
        del tally[of]


def _partitions(partitioned: Iterable[Occupancy]) -> tuple[int, int, Mapping[str, int], Mapping[str, int]]:
    """Instances that the cards hold when empty and those they can still hold; held and left by profile."""
    ceiling = free = 0
    allocated: dict[str, int] = {}
    remaining: dict[str, int] = {}
    for occupancy in partitioned:
        ceiling += max((profile.count for profile in occupancy.card.profiles), default=0)
        for profile, held in occupancy.allocated_profiles().items():
            allocated[profile] = allocated.get(profile, 0) + held
        left = occupancy.remaining_profiles() if occupancy.card.healthy else dict.fromkeys(_offered(occupancy), 0)
        free += max(left.values(), default=0)
        for profile, count in left.items():
            remaining[profile] = remaining.get(profile, 0) + count
    return ceiling, free, allocated, remaining


def _offered(occupancy: Occupancy) -> list[str]:
    return [profile.name for profile in occupancy.card.profiles]


def _listed(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "count": counts[name]} for name in sorted(counts)]
