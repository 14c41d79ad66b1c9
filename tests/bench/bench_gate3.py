"""A verdict without its API round trips: what gate 3 computes between reading the Pods of its nodes and answering."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import orjson

from gpustack_ctl.accel.cards import NodeCards
from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.feasibility import Miss, Plan, fit
from gpustack_ctl.accel.inflight import Inflight, occupy
from gpustack_ctl.accel.ledger import rebuild
from gpustack_ctl.accel.pools import pool_of
from gpustack_ctl.accel.units import M
from gpustack_ctl.controllers.demands import demands_of
from gpustack_ctl.controllers.fleet import Fleet
from gpustack_ctl.controllers.pins import pin_of
from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import namespace_of
from gpustack_ctl.kube.resources import PODS
from gpustack_ctl.localcluster import LocalCluster
from tests.bench import core_fixtures as given
from tests.bench.fleets import POOL, a_workload, fill
from tests.bench.kueue_pools import INSTANT, NAMESPACE, PLAIN, Pools, pools
from tests.bench.simulate_fixture import measure_million
from tests.e2e.roles import until
from tests.integration.controllers.test_admission_check import card, sliced, tenant
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


async def bench_fleet_of_any_size(tmp_path: Path, measured: Measured) -> None:
    """What a verdict computes among all that a manager knows: it follows the nodes assigned, and not their number."""
    p50: dict[int, float] = {}
    for nodes in (1000, 5000):
        async with Kube.connect(kubeconfig=_nowhere(tmp_path)) as kube:
            sources = Sources.of(Informers(kube))  # never started: they hold what is put in
            fleet = Fleet(kube=kube, sources=sources, table=TABLE)
            names = fill(sources, nodes=nodes)
            times = sorted(_verdict(sources, fleet, name) for name in names[:: nodes // 1000])
        p50[nodes] = times[len(times) // 2]
        measured(f"a verdict among {nodes:,} nodes of 8 cards, p50", p50[nodes], unit="ms", goal=2)
        measured(f"a verdict among {nodes:,} nodes of 8 cards, p99", times[len(times) * 99 // 100], unit="ms", goal=10)
    measured("the same, 5,000 nodes beside 1,000", p50[5000], peer=p50[1000], unit="ms", goal=1.2 * p50[1000])


def _verdict(sources: Sources, fleet: Fleet, node: str) -> float:
    """Milliseconds of processor time; the Pods come from the cache, where the check reads them from the API server."""
    workload = a_workload("judged", node, admitted=False)
    started = process_time()
    pool = pool_of(sources.instance_types.get(POOL.queue) or {}, table=TABLE)
    demands = demands_of(workload, pool=pool, flavor_of=sources.flavors.get, table=TABLE)
    found = fit(demands, {node: fleet.glance(sources.nodes.get(node) or {})})
    spent = (process_time() - started) * 1000
    assert isinstance(found, Plan)
    return spent


def _nowhere(directory: Path) -> str:
    """A kubeconfig that leads to no server."""
    named = {"name": "nowhere"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{**named, "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{**named, "user": {"token": "none"}}],
        "contexts": [{**named, "context": {"cluster": "nowhere", "user": "nowhere"}}],
        "current-context": "nowhere",
    }
    (directory / "kubeconfig").write_bytes(orjson.dumps(config))
    return str(directory / "kubeconfig")


async def bench_throughput(control_plane: LocalCluster, tmp_path: Path, measured: Measured) -> None:
    """The same Pods through three queues of one Kueue in one run, there and back again, so that load is shared."""
    async with pools(control_plane, tmp_path, nodes=10, cards=8) as given_pools:
        queues = (PLAIN, INSTANT, given_pools.pool.queue)
        await given_pools.seconds_to_admit(given_pools.pool.queue, 8)  # connections open, code warm
        seconds = dict.fromkeys(queues, 0.0)
        for queue in (*queues, *reversed(queues)):
            seconds[queue] += await given_pools.seconds_to_admit(queue, _PODS)
        plain, instant, ours = (seconds[queue] / (2 * _PODS - 2) * 1000 for queue in queues)
        measured("one admission, plain Kueue without a check", plain, unit="ms")
        measured(
            "one admission, beside a check that says Ready at once", ours, peer=instant, unit="ms", goal=instant / 0.9
        )
        await _release(given_pools, measured)


async def _release(given_pools: Pools, measured: Measured) -> None:
    """A card comes free, and the Workload that waits for it is admitted: the oldest of several, time after time."""
    kube, pool = given_pools.kube, given_pools.pool
    nodes = given_pools.stage.added
    for at, node in enumerate(nodes):
        entries = [card(pool, node, index, Mode.EXCLUSIVE, M) for index in range(8)]
        for entry in entries:
            await tenant(kube, NAMESPACE, f"holder-{at}-{entry.index}", node, entry)
    for number in range(_RELEASES):
        await kube.create(PODS, given_pools.asking(f"late-{number}", pool.queue, sliced(60)))

    async def all_parked() -> bool:
        pins = [pin_of(each) for each in given_pools.workloads.list() if namespace_of(each) == NAMESPACE]
        return len(pins) == _RELEASES and all(pin is not None and pin.parked for pin in pins)

    await until("all are parked", all_parked, seconds=60)
    times = []
    for number in range(_RELEASES):
        started = perf_counter()
        await kube.delete(PODS, f"holder-{number % len(nodes)}-{number // len(nodes)}", NAMESPACE, grace_period=0)

        await given_pools.admitted(number + 1)
        times.append(perf_counter() - started)
    times.sort()
    measured("a card released → admitted, p50", times[len(times) // 2], unit="s", goal=2)
    measured("a card released → admitted, p99", times[len(times) * 99 // 100], unit="s", goal=5)
    await given_pools.clear()


_PODS, _RELEASES = 40, 20


def _fleet() -> dict[str, NodeCards]:
    return {name: NodeCards(name, states) for name, states in given.bench_views(NODES).items()}
