"""What the pure core costs: a node's account, a pool's views, a Pod's reading, a verdict."""

from collections.abc import Callable
from itertools import count, cycle
from typing import Any

from gpustack_ctl.accel.feasibility import Plan, fit
from gpustack_ctl.accel.folds import fold
from gpustack_ctl.accel.inflight import occupy
from gpustack_ctl.accel.ledger import rebuild
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.requests import read_pod
from gpustack_ctl.accel.rules import validate
from gpustack_ctl.accel.views import PoolViews, contribution
from gpustack_ctl.controllers.pool_views import PoolLedgers
from tests.bench import core_fixtures as given
from tests.unit.accel.builders import A10G, TABLE

Milliseconds = Callable[..., float]
Measured = Callable[..., None]

POOL = Pool("gpustack--nvidia-a10g-linux-amd64", A10G, "nvidia", memory_mib=24576)
QUEUE = "gpustack-fnv64-c4680bb149644f1c"


def bench_rebuild(milliseconds: Milliseconds, measured: Measured) -> None:
    cards, pods = given.bench_rebuild()
    measured("rebuild, 16 cards, 200 Pods", milliseconds(rebuild, cards, pods, table=TABLE), unit="ms", goal=1)


def bench_views(milliseconds: Milliseconds, measured: Measured) -> None:
    nodes = given.bench_views()

    def views() -> str:
        pool = PoolViews()
        for name, states in nodes.items():
            pool.update(name, contribution(states))
        return pool.views().printed

    measured("four views, 1,000 nodes × 8 cards", milliseconds(views), unit="ms", goal=20)


def bench_one_changed_node(milliseconds: Milliseconds, measured: Measured) -> None:
    pool = PoolViews()
    for name, states in given.bench_views().items():
        pool.update(name, contribution(states))
    before, after = given.bench_views(nodes=2).values()
    turns = cycle((after, before))

    def change() -> str:
        assert pool.update("node-0", contribution(next(turns)))
        return pool.views().printed

    measured("four views, one node changed", milliseconds(change), unit="ms", goal=1)


def bench_one_changed_object(milliseconds: Milliseconds, measured: Measured) -> None:
    """As the controller has it: a thousand `Devices`, one of them with a new version."""
    members = given.bench_devices()
    ledgers = PoolLedgers(A10G)
    ledgers.refresh(members)
    before, after = (devices["status"] for devices in members[:2])
    turns, versions = cycle((after, before)), count(2)

    def change() -> str:
        metadata = members[0]["metadata"] | {"resourceVersion": str(next(versions))}
        members[0] |= {"metadata": metadata, "status": next(turns)}
        return ledgers.refresh(members).printed

    measured("four views from 1,000 objects, one changed", milliseconds(change), unit="ms", goal=1)


def bench_read_pod(milliseconds: Milliseconds, measured: Measured) -> None:
    spec = given.pod_spec()
    measured("read_pod", milliseconds(read_pod, spec, table=TABLE, pool=POOL), unit="ms")


def bench_fold(milliseconds: Milliseconds, measured: Measured) -> None:
    spec = given.pod_spec()
    measured("fold", milliseconds(fold, spec, table=TABLE, pool=POOL, queue=QUEUE), unit="ms")


def bench_validate(milliseconds: Milliseconds, measured: Measured) -> None:
    folded: Any = fold(given.pod_spec(), table=TABLE, pool=POOL, queue=QUEUE).spec
    assert validate(folded, table=TABLE, pool=POOL, queue=QUEUE) == []
    measured("validate", milliseconds(validate, folded, table=TABLE, pool=POOL, queue=QUEUE), unit="ms")


def bench_fit(milliseconds: Milliseconds, measured: Measured) -> None:
    demands, nodes = given.bench_fit()
    assert isinstance(fit(demands, nodes), Plan)
    measured("fit, three slices on a node half taken", milliseconds(fit, demands, nodes), unit="ms", goal=2)


def bench_fit_several(milliseconds: Milliseconds, measured: Measured) -> None:
    demands, nodes = given.bench_fit_several()
    assert isinstance(fit(demands, nodes), Plan)
    measured("fit, two roles over four nodes", milliseconds(fit, demands, nodes), unit="ms", goal=2)


def bench_fit_searched(milliseconds: Milliseconds, measured: Measured) -> None:
    demands, nodes = given.bench_fit_searched()
    assert isinstance(fit(demands, nodes), Plan)
    measured("fit, only a search finds it", milliseconds(fit, demands, nodes), unit="ms", goal=10)


def bench_fit_hopeless(milliseconds: Milliseconds, measured: Measured) -> None:
    demands, nodes = given.bench_fit_hopeless()
    assert not isinstance(fit(demands, nodes), Plan)
    measured("fit, a proof that nothing fits, or its bound", milliseconds(fit, demands, nodes), unit="ms")


def bench_inflight(milliseconds: Milliseconds, measured: Measured) -> None:
    nodes, promised = given.bench_inflight()
    measured("twenty unplanned promises taken", milliseconds(occupy, nodes, promised), unit="ms", goal=10)
