"""Nodes in the order in which Kueue would take them: least free capacity first, among equals by name.

A fleet has ten thousand nodes and a request wants the first of them, so the order is kept and not made: a heap whose
outdated entries are recognised when they come to the top. An entry is one integer, the count of Pods above the rank of
the name, which is compared and stored cheaply.
"""

from __future__ import annotations

from collections.abc import Generator
from heapq import heapify, heappop, heappush


class Order:
    """Ranks by their count, the smallest first; a rank has one count or none."""

    __slots__ = ("_heap", "_keys", "_most", "_ranks")

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._most = 2 * ranks + _SLACK
        self._keys = [_NONE] * ranks
        self._heap: list[int] = []

    def put(self, rank: int, count: int) -> None:
        """Set the rank's count; zero takes it out."""
        key = count * self._ranks + rank if count else _NONE
        if self._keys[rank] == key:
            return
        self._keys[rank] = key
        if key == _NONE:
            return
        heap = self._heap
        heappush(heap, key)
        if len(heap) > self._most:
            self._heap = [key for key in self._keys if key != _NONE]
            heapify(self._heap)

    def first(self) -> int | None:
        """The rank with the smallest count."""
        heap, keys, ranks = self._heap, self._keys, self._ranks
        while heap:
            rank = heap[0] % ranks
            if keys[rank] == heap[0]:
                return rank
            heappop(heap)
        return None

    def count(self, rank: int) -> int:
        """The rank's count; zero when it has none."""
        key = self._keys[rank]
        return 0 if key == _NONE else key // self._ranks

    def ascending(self) -> Generator[int, None, None]:
        """The ranks in order. Ranks may be changed on the way; what was passed is not shown again."""
        passed: list[int] = []
        try:
            while (rank := self.first()) is not None:
                key = heappop(self._heap)
                if not passed or passed[-1] != key:
                    passed.append(key)
                    yield rank
        finally:
            for key in passed:
                if self._keys[key % self._ranks] == key:
                    heappush(self._heap, key)


_NONE = -1
_SLACK = 1024


class Index:
    """The nodes of a flavor for so many Pods of one need on a node.

    `listed` are those that the scheduler counts room on. A node on which gate 3 has found none is `missed` until it
    changes, so that nobody looks there again in vain.
    """

    __slots__ = ("listed", "missed", "pods")

    def __init__(self, ranks: int, pods: int) -> None:
        self.pods = pods
        self.listed = Order(ranks)
        self.missed = Order(ranks)

    def changed(self, rank: int, count: int, *, grew: bool) -> None:
        """The node counts so many Pods free now; only where it ``grew`` can gate 3 have come to think otherwise."""
        if count < self.pods:
            count = 0
        if self.missed.count(rank):
            if not grew:
                self.missed.put(rank, count)
                return
            self.missed.put(rank, 0)
        self.listed.put(rank, count)

    def miss(self, rank: int) -> None:
        """Gate 3 finds no room on the node as it is."""
        self.missed.put(rank, self.listed.count(rank))
        self.listed.put(rank, 0)

    @property
    def first_choice(self) -> int | None:
        """The node that Kueue would choose, not knowing gate 3's answer."""
        ranks = [rank for rank in (self.listed.first(), self.missed.first()) if rank is not None]
        return min(ranks, key=lambda rank: (self.listed.count(rank) + self.missed.count(rank), rank), default=None)
