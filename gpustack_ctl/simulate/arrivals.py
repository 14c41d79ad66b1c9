"""Who arrives when: the Workloads as the scenario lists them, or as they are drawn from its distribution.

Drawing is one stream from one seed, Workload by Workload, so that a scenario is the same on every machine. Gaps between
arrivals and durations are exponential; family, size, PodSets and Pods follow their weights.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any

from gpustack_ctl.accel.families import Family, KeyKind, Manufacturer, Manufacturers
from gpustack_ctl.simulate.requests import Request, Requests
from gpustack_ctl.simulate.scenario import PodSetEntry, RandomEntry, Scenario, Weights


@dataclass(frozen=True, slots=True)
class Arrival:
    """A Workload that comes at a time; `number` counts from 0 in the order of the scenario."""

    at: float
    number: int
    request: Request
    duration: float | None
    priority: int = 0
    node: str | None = None


def arrivals(scenario: Scenario, requests: Requests, *, table: Manufacturers) -> Iterator[Arrival]:
    """Every Workload, by the time of its arrival."""
    if scenario.random is not None:
        return _drawn(scenario.random, requests, table)
    listed = (
        Arrival(each.at, number, requests.of(each.pool, each.pod_sets), each.duration, each.priority, each.node)
        for number, each in enumerate(scenario.workloads)
    )
    return iter(sorted(listed, key=lambda arrival: arrival.at))


def _drawn(random: RandomEntry, requests: Requests, table: Manufacturers) -> Iterator[Arrival]:
    maker = table.of_akey(random.pool) or next(iter(table.by_key.values()))
    draw = Random(random.seed)  # noqa: S311 - a simulation wants the same numbers again
    uniform, exponential = draw.random, draw.expovariate
    kinds = _Drawing(random, maker, requests)
    rate, per_second = random.rate, 1 / random.mean_duration
    at = 0.0
    for number in range(random.requests):
        at += exponential(rate)
        family = kinds.mix.at(uniform())
        size = kinds.sizes[family].at(uniform())
        pod_sets, pods = kinds.pod_sets.at(uniform()), kinds.pods.at(uniform())
        yield Arrival(at, number, kinds.request(family, size, pod_sets, pods), exponential(per_second))


class _Weighted:
    """Values by weight."""

    def __init__(self, weights: Weights) -> None:
        self._values = [value for value, _ in weights]
        sums = list(accumulate(weight for _, weight in weights))
        self._bounds = [each / sums[-1] for each in sums[:-1]]

    def at(self, uniform: float) -> Any:
        """The value that a number between 0 and 1 stands for."""
        return self._values[bisect(self._bounds, uniform)]


class _Drawing:
    """The distribution, and the requests that its outcomes stand for."""

    def __init__(self, random: RandomEntry, maker: Manufacturer, requests: Requests) -> None:
        self.mix = _Weighted(random.mix)
        self.sizes = {family: _Weighted(weights) for family, weights in random.sizes.items()}
        self.pod_sets = _Weighted(random.pod_sets)
        self.pods = _Weighted(random.pods)
        self._pool = random.pool
        self._maker = maker
        self._requests = requests
        self._known: dict[tuple[Any, ...], Request] = {}

    def request(self, family: Family, size: Any, pod_sets: int, pods: int) -> Request:
        key = (family, size, pod_sets, pods)
        if key not in self._known:
            spec = {"containers": [{"name": "main", "resources": {"limits": self._limits(family, size)}}]}
            names = ["main"] if pod_sets == 1 else [f"role-{number}" for number in range(pod_sets)]
            self._known[key] = self._requests.of(self._pool, [PodSetEntry(name, pods, spec) for name in names])
        return self._known[key]

    def _limits(self, family: Family, size: Any) -> dict[str, Any]:
        maker = self._maker
        match family:
            case Family.EXCLUSIVE:
                return {maker.key_for(KeyKind.WHOLE): size}
            case Family.SHARED:
                return {maker.key_for(KeyKind.SHARED): size}
            case Family.SLICED:
                return {maker.key_for(KeyKind.SLICED): 1, maker.key_for(KeyKind.MEMORY_PERCENTAGE): size}
            case Family.PARTITIONED:
                return {maker.key_for(KeyKind.PARTITIONED): 1, maker.key_for(KeyKind.PROFILE, size): 1}
