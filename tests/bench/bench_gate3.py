"""A verdict without its API round trips: what gate 3 computes between reading the Pods of its nodes and answering."""

from collections.abc import Callable
from time import process_time

from gpustack_ctl.accel.cards import NodeCards
from gpustack_ctl.accel.feasibility import Miss, Plan, fit
from gpustack_ctl.accel.inflight import Inflight, occupy
from gpustack_ctl.accel.ledger import rebuild
from tests.bench import core_fixtures as given
from tests.bench.simulate_fixture import measure_million
from tests.unit.accel.builders import TABLE, demand, wants_slice, wants_whole

Milliseconds = Callable[..., float]
Measured = Callable[..., None]

NODES = 1000


def bench_one_node(measured: Measured) -> None:
    """One Workload after the other, each on a node of its own, as Kueue assigns them; some fit, some do not."""
    cards, pods = given.bench_rebuild(cards=8, pods=16)
    times, found = [], set()
    for turn in range(NODES):
        name = f"node-{turn}"
        promised = [Inflight(f"team/w-{turn}-{n}", demand(wants_slice(5), on=name)) for n in range(2)]
        demands = [demand(wants_slice(turn % 96 + 5), on=name)]
        started = process_time()
        ledger = rebuild(cards, pods, table=TABLE)
        found.add(type(fit(demands, occupy({name: ledger.on(name)}, promised))))
        times.append((process_time() - started) * 1000)
    assert found == {Plan, Miss}
    times.sort()
    measured("a verdict on a node of 8 cards and 16 Pods, p50", times[len(times) // 2], unit="ms", goal=2)
    measured("a verdict on a node of 8 cards and 16 Pods, p99", times[len(times) * 99 // 100], unit="ms", goal=10)


def bench_gang(milliseconds: Milliseconds, measured: Measured) -> None:
    demands = [demand(wants_whole(2), on=f"node-{number}") for number in range(0, NODES, 10)]
    measured("a verdict over 100 nodes of 8 cards", milliseconds(fit, demands, _fleet()), unit="ms")


def bench_anywhere(milliseconds: Milliseconds, measured: Measured) -> None:
    """A Workload that was assigned no node by name: every node of the pool is a candidate."""
    fleet, demands = _fleet(), [demand(wants_slice(50), on=None)]
    assert isinstance(fit(demands, fleet), Plan)
    measured("a verdict that may choose among 1,000 nodes", milliseconds(fit, demands, fleet), unit="ms")


def bench_simulate(measured: Measured) -> None:
    """All gates over a fleet on paper: 12,500 nodes of 8 cards, a million Workloads, one core."""
    seconds, mebibytes = measure_million()
    measured("simulate 1,000,000 requests on 12,500 nodes", seconds, unit="s", goal=60)
    measured("memory of that simulation", mebibytes, unit="MiB")


def _fleet() -> dict[str, NodeCards]:
    return {name: NodeCards(name, states) for name, states in given.bench_views(NODES).items()}
