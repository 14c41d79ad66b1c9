"""Simulated time: Workloads arrive, run and end, cards fail and nodes go, and whoever waits is looked at again.

Time jumps from one moment to the next in which something happens. Within a moment what ends goes first, then events,
then everybody who waits gets a chance at the room that came, and last come new Workloads. Gates themselves take no
time. A Workload whose node goes waits again with its age and starts anew; the capacity that a holding outside Kueue
takes never comes back.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.simulate.account import Account
from gpustack_ctl.simulate.arrivals import Arrival, arrivals
from gpustack_ctl.simulate.placing import Fleet, Node, Placed, Waits, place
from gpustack_ctl.simulate.quota import Quota, pools_of
from gpustack_ctl.simulate.requests import Requests
from gpustack_ctl.simulate.results import Results, Rows, Totals
from gpustack_ctl.simulate.scenario import EventEntry, Scenario
from gpustack_ctl.simulate.waiting import Line, Waiting

Progress = Callable[[int, int], None]
"""Told now and then how many Workloads have arrived, of how many."""

_TOLD_EVERY = 4096
_NEVER = float("inf")


def simulate(scenario: Scenario, *, table: Manufacturers, progress: Progress | None = None) -> Results:
    """Run a scenario to its end: when nothing is left that could happen."""
    with _no_collector():
        return _Simulation(scenario, table, progress or (lambda _done, _of: None)).run()


@contextmanager
def _no_collector() -> Iterator[None]:
    """Do without the garbage collector: states refer onward to fuller ones only, and it would search them in vain."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@dataclass(slots=True)
class _Running:
    """A Workload that runs, and the moment at which it ends by itself."""

    arrival: Arrival
    place: Placed
    until: float


class _Simulation:
    def __init__(self, scenario: Scenario, table: Manufacturers, progress: Progress) -> None:
        kinds = [entry.cards for entry in scenario.nodes]
        self._quota = Quota({name: entry.cards for entry in scenario.nodes for name in entry.names}, table)
        self._fleet = Fleet(scenario.nodes, self._quota)
        self._account = Account()
        for node in self._fleet.nodes:
            self._account.join(node.state)
        self._arrivals = arrivals(scenario, Requests(pools_of(kinds, table), table), table=table)
        self._total = scenario.random.requests if scenario.random else len(scenario.workloads)
        self._progress = progress
        self._events = list(reversed(scenario.events))
        names = [workload.name for workload in scenario.workloads]
        self._numbers = {name: number for number, name in enumerate(names)}
        self._rows = Rows(self._total, names.__getitem__ if names else lambda number: f"random-{number}")
        self._waiting = Waiting(self._account)
        self._running: dict[int, _Running] = {}
        self._waiters: dict[int, Arrival] = {}
        self._ends: list[tuple[float, int]] = []
        self._made_room: set[str] = set()

    def run(self) -> Results:
        arriving = next(self._arrivals, None)
        while True:
            ending, happening = self._next_end(), self._events[-1].at if self._events else _NEVER
            now = min(ending, happening, arriving.at if arriving else _NEVER)
            if now == _NEVER:
                return self._results()
            self._account.advance(now)
            while ending == now:
                self._end(now, heappop(self._ends)[1])
                ending = self._next_end()
            while happening == now:
                self._happen(self._events.pop())
                happening = self._events[-1].at if self._events else _NEVER
            if self._made_room:
                self._retry(now)
            while arriving and arriving.at == now:
                self._arrive(arriving)
                arriving = next(self._arrivals, None)

    def _arrive(self, arrival: Arrival) -> None:
        if arrival.number % _TOLD_EVERY == 0:
            self._progress(arrival.number, self._total)
        if arrival.request.refusal:
            self._rows.refuse(arrival.number, arrival.request.refusal)
            return
        waits = self._try(arrival, arrival.at)
        if waits is not None:
            self._wait(arrival, waits, waits.message)

    def _try(self, arrival: Arrival, now: float) -> Waits | None:
        """Admit the Workload if the gates let it pass."""
        found = place(arrival.request, self._fleet, self._quota, pinned=self._pinned(arrival))
        if isinstance(found, Waits):
            return found
        for flavor, credits_ in found.credits:
            flavor.reserved += credits_
        for node, answer in found.taken:
            self._account.change(node.state, answer.after)
            self._fleet.change(node, answer.after, grew=False)
        until = _NEVER if arrival.duration is None else now + arrival.duration
        self._running[arrival.number] = _Running(arrival, found, until)
        if until < _NEVER:
            heappush(self._ends, (until, arrival.number))
        self._rows.admit(arrival.number, now, tuple([(node.name, answer.cards) for node, answer in found.taken]))
        return None

    def _pinned(self, arrival: Arrival) -> Node | None:
        return None if arrival.node is None else self._fleet.by_name[arrival.node]

    def _wait(self, arrival: Arrival, waits: Waits, message: str) -> None:
        self._rows.wait(arrival.number, waits.gate, message)
        self._waiters[arrival.number] = arrival
        self._waiting.add(arrival.number, arrival.request, arrival.node, arrival.priority, waits)

    def _retry(self, now: float) -> None:
        """Give everybody who waits in a pool where room was made another chance."""

        def attempt(number: int, _: Line) -> Waits | None:
            waits = self._try(self._waiters[number], now)
            if waits is None:
                del self._waiters[number]
            return waits

        pools, self._made_room = self._made_room, set()
        self._waiting.retry(pools, attempt)

    def _next_end(self) -> float:
        """When the next Workload's time is up; one that ended otherwise, or started anew, since is passed over."""
        while self._ends:
            until, number = self._ends[0]
            running = self._running.get(number)
            if running is not None and running.until == until:
                return until
            heappop(self._ends)
        return _NEVER

    def _end(self, at: float, number: int) -> None:
        self._give_back(number)
        self._rows.finish(number, at)

    def _give_back(self, number: int) -> _Running:
        running = self._running.pop(number)
        for flavor, credits_ in running.place.credits:
            flavor.reserved -= credits_
        for node, answer in running.place.taken:
            after = node.kind.without(node.state, answer.taken)
            if not node.gone:
                self._account.change(node.state, after)
            self._fleet.change(node, after, grew=True)
        self._made_room.add(running.arrival.request.akey)
        return running

    def _happen(self, event: EventEntry) -> None:
        match event.what:
            case "release":
                self._release(self._numbers[event.name], event.at)
            case "gone":
                self._lose(self._fleet.by_name[event.name])
            case "healthy" | "unhealthy":
                node = self._fleet.by_name[event.name]
                after = node.kind.with_health(node.state, event.card, healthy=event.what == "healthy")
                if not node.gone:
                    self._account.change(node.state, after)
                self._fleet.change(node, after, grew=True)
                self._made_room.update(node.kind.counts)

    def _release(self, number: int, at: float) -> None:
        if number in self._running:
            self._give_back(number)
        elif (waits := self._waiting.withdraw(number)) is not None:
            del self._waiters[number]
            self._rows.wait(number, waits.gate, f"{waits.message}; deleted while it waited")
        else:
            return
        self._rows.finish(number, at)

    def _lose(self, node: Node) -> None:
        """The Node object is gone: what ran on it waits again."""
        if node.gone:
            return
        self._account.leave(node.state)
        self._fleet.lose(node)
        for number in self._on(node):
            arrival = self._give_back(number).arrival
            self._wait(arrival, Waits(3, ""), f"node {node.name} is gone: it waits again")
        self._made_room.update(node.kind.counts)

    def _on(self, node: Node) -> list[int]:
        return [
            number for number, running in self._running.items() if any(on is node for on, *_ in running.place.taken)
        ]

    def _results(self) -> Results:
        for number, waits in self._waiting.left():
            self._rows.wait(number, waits.gate, waits.message)
        rows = self._rows
        utilisation, fragmentation = self._account.averages()
        admitted, refused = rows.admitted, rows.refused
        totals = Totals(
            admitted=admitted,
            held=len(rows) - admitted - refused,
            refused=refused,
            utilisation=utilisation,
            fragmentation=fragmentation,
            seconds=self._account.now,
            points=self._account.points(),
        )
        return Results(rows, totals)
