"""Who waits, in the order in which they are looked at again: by priority, then age.

Workloads that ask the same are interchangeable, so they wait in one line, and a line whose first cannot be placed need
not be asked further: nobody in it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from heapq import heapify, heappop, heappush

from gpustack_ctl.simulate.account import Account, Units
from gpustack_ctl.simulate.placing import Waits
from gpustack_ctl.simulate.requests import Request


class Line:
    """Workloads that ask the same, with the same priority and pin; numbers are their age."""

    __slots__ = ("_counted", "numbers", "pinned", "priority", "request", "waits")

    def __init__(self, request: Request, pinned: str | None, priority: int) -> None:
        self.request = request
        self.pinned = pinned
        self.priority = priority
        self.numbers: list[int] = []
        self.waits = Waits(2, "")
        self._counted = 0

    def __lt__(self, other: Line) -> bool:
        return (-self.priority, self.numbers[0]) < (-other.priority, other.numbers[0])

    def count(self, account: Account) -> None:
        """Tell the account what cards keep waiting here."""
        wanting = self.request.units * len(self.numbers) if self.waits.credits else 0
        account.pools.setdefault(self.request.akey, Units()).wanting += wanting - self._counted
        self._counted = wanting


class Waiting:
    """All lines."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._lines: dict[tuple[Request, str | None, int], Line] = {}

    def add(self, number: int, request: Request, pinned: str | None, priority: int, waits: Waits) -> None:
        """Let a Workload wait."""
        key = (request, pinned, priority)
        line = self._lines.get(key) or self._lines.setdefault(key, Line(*key))
        heappush(line.numbers, number)
        line.waits = waits
        line.count(self._account)

    def withdraw(self, number: int) -> Waits | None:
        """Take a Workload out; what it was waiting for, or None when it was not here."""
        for line in self._lines.values():
            if number in line.numbers:
                line.numbers.remove(number)
                heapify(line.numbers)
                line.count(self._account)
                return line.waits
        return None

    def retry(self, pools: Collection[str], attempt: Callable[[int, Line], Waits | None]) -> None:
        """Look again at everybody in these pools; ``attempt`` places a Workload, or says why it still waits."""
        due = [line for line in self._lines.values() if line.numbers and line.request.akey in pools]
        heapify(due)
        while due:
            line = due[0]
            waits = attempt(line.numbers[0], line)
            if waits is None:
                heappop(line.numbers)
            else:
                line.waits = waits
            line.count(self._account)
            heappop(due)
            if waits is None and line.numbers:
                heappush(due, line)

    def left(self) -> Iterator[tuple[int, Waits]]:
        """Everybody who still waits, with why."""
        for line in self._lines.values():
            for number in line.numbers:
                yield number, line.waits
