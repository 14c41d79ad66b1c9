"""What was made of the fleet: utilisation, and the waste by fragmentation, over time.

Utilisation is the part of all cards' units that is held. Waste by fragmentation is the part that stands free although
somebody whose credits would be granted waits for as much: the cards have it in sum, and nowhere in the shape that was
asked for. It is counted by pool, since no pool's free cards serve another's requests, and only on healthy cards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpustack_ctl.accel.units import M
from gpustack_ctl.simulate.fleet import FREE, HELD, NodeState

MOST_POINTS = 64


@dataclass(slots=True)
class Units:
    """Units of one pool's cards: all, held, free on healthy cards, and asked for by those that cards keep waiting."""

    total: int = 0
    held: int = 0
    free: int = 0
    wanting: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """Averages over the time from ``at`` to the next point, as parts of the fleet."""

    at: float
    utilisation: float
    fragmentation: float


@dataclass(slots=True)
class Account:
    """The units now, and their sums over the time that has passed."""

    pools: dict[str, Units] = field(default_factory=dict)
    now: float = 0.0
    _width: float = 1.0
    _held: list[float] = field(default_factory=lambda: [0.0] * 2 * MOST_POINTS)
    _wasted: list[float] = field(default_factory=lambda: [0.0] * 2 * MOST_POINTS)

    def join(self, state: NodeState) -> None:
        """A node's cards come into the fleet."""
        for akey, cards in state.kind.counts.items():
            units = self.pools.setdefault(akey, Units())
            units.total += cards * M
            _add(units, state.sums[akey], 1)

    def leave(self, state: NodeState) -> None:
        """A node's cards leave it."""
        for akey, cards in state.kind.counts.items():
            self.pools[akey].total -= cards * M
            _add(self.pools[akey], state.sums[akey], -1)

    def change(self, before: NodeState, after: NodeState) -> None:
        """A node's cards are held differently."""
        for akey, sums in after.sums.items():
            units, were = self.pools[akey], before.sums[akey]
            units.held += sums[HELD] - were[HELD]
            units.free += sums[FREE] - were[FREE]

    def advance(self, now: float) -> None:
        """Time goes on to ``now`` with everything as it is."""
        if now == self.now:
            return
        held, wasted = self.parts()
        while now >= self._width * 2 * MOST_POINTS:
            self._widen()
        at, width = self.now, self._width
        bucket = int(at / width)
        while at < now:  # most steps stay within one bucket
            until = min(now, (bucket + 1) * width)
            self._held[bucket] += held * (until - at)
            self._wasted[bucket] += wasted * (until - at)
            at, bucket = until, bucket + 1
        self.now = now

    def parts(self) -> tuple[float, float]:
        """Held and wasted now, as parts of the fleet."""
        total = held = wasted = 0
        for units in self.pools.values():
            total += units.total
            held += units.held
            wasted += min(units.free, units.wanting)
        return (held / total, wasted / total) if total else (0.0, 0.0)

    def averages(self) -> tuple[float, float]:
        """Utilisation and fragmentation over all the time that has passed; as they are, where none has."""
        if not self.now:
            return self.parts()
        return sum(self._held) / self.now, sum(self._wasted) / self.now

    def points(self) -> list[Point]:
        """Both over time, at most ``2 × MOST_POINTS`` points; one where nothing changed is left out."""
        points: list[Point] = []
        for bucket, (held, wasted) in enumerate(zip(self._held, self._wasted, strict=True)):
            at = bucket * self._width
            if at >= self.now:
                break
            seconds = min(self._width, self.now - at)
            point = Point(at, round(held / seconds, 6), round(wasted / seconds, 6))
            if not points or (point.utilisation, point.fragmentation) != (
                points[-1].utilisation,
                points[-1].fragmentation,
            ):
                points.append(point)
        return points

    def _widen(self) -> None:
        """Halve the points, so that a year has no more of them than a minute."""
        self._width *= 2
        self._held, self._wasted = _in_pairs(self._held), _in_pairs(self._wasted)


def _add(units: Units, sums: tuple[int, ...], sign: int) -> None:
    units.held += sign * sums[HELD]
    units.free += sign * sums[FREE]


def _in_pairs(values: list[float]) -> list[float]:
    pairs: Iterable[tuple[float, float]] = zip(values[::2], values[1::2], strict=True)
    return [one + other for one, other in pairs] + [0.0] * (len(values) // 2)
