"""A fleet of 1,000 nodes with 8 cards each: how fast its pools open, what a manager at rest writes, weighs and costs.

On a cluster of its own, because the fleet stays in the other rows' way. The manager is a process with the rights that
deploy/rbac gives it, so that the API server's audit log tells its writes from everybody else's.
"""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import anyio
import psutil

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.features import feature_labels
from gpustack_ctl.accel.kueue_config import kueue_configuration
from gpustack_ctl.controllers import crd_install
from gpustack_ctl.deployment import rbac
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj, is_true, name_of
from gpustack_ctl.kube.resources import CLUSTER_QUEUES, DEVICES, INSTANCE_TYPES, NODES, PODS, RESOURCE_FLAVORS
from gpustack_ctl.localcluster import ClusterSpec, FakeNode, FakeNodes, LocalCluster, local_cluster
from gpustack_ctl.localcluster.run import Run
from tests.e2e.roles import Role, free_ports
from tests.integration.controllers.stage import CORES, SLOTS, Pool, devices, devices_spec, until
from tests.integration.deployment.access import NAMESPACE, granted, kubeconfig_of, requests_of

NODES_OF_FLEET = int(os.environ.get("BENCH_NODES", "1000"))
PODS_OF_FLEET = int(os.environ.get("BENCH_PODS", "10000"))
REST_SECONDS = int(os.environ.get("BENCH_REST_SECONDS", "300"))
CARDS = 8
POOLS = tuple(Pool(f"fleet-{letter}") for letter in "abcd")
WRITES = {"create", "update", "patch", "delete"}


async def bench_fleet(measured: Callable[..., None]) -> None:
    async with _cluster() as cluster, Kube.connect(kubeconfig=str(cluster.kubeconfig)) as kube:
        await crd_install.ensure(kube)
        async with granted(kube, rbac.manager_manifests(NAMESPACE)), anyio.create_task_group() as tasks:
            nodes = FakeNodes(cluster.kubeconfig, lease_seconds=40)
            tasks.start_soon(nodes.run)
            manager = _manager(cluster)
            await manager.start()
            try:
                await _open_pools(kube, nodes, manager, measured)
                await _fill(kube, PODS_OF_FLEET)
                await _rest(cluster, manager, measured)
                await _restart(kube, manager, measured)
            finally:
                with anyio.CancelScope(shield=True):
                    await manager.stop()
                tasks.cancel_scope.cancel()


async def _open_pools(kube: Kube, nodes: FakeNodes, manager: Role, measured: Callable[..., None]) -> None:
    """From the last object written to every pool Active and all of its cards seen."""
    began, spent = perf_counter(), manager.cpu_seconds
    await _add(kube, nodes)
    written = perf_counter()
    await until("every pool is Active with all of its cards", lambda: _open(kube), seconds=300)
    measured(
        f"{NODES_OF_FLEET} nodes × {CARDS}: last one written → all pools Active",
        perf_counter() - written,
        unit="s",
        goal=30,
    )
    measured("first one written → all pools Active", perf_counter() - began, unit="s")
    await until("every node has its keys and labels", lambda: _settled(kube), seconds=300)
    measured("last one written → every node has its keys and labels", perf_counter() - written, unit="s")
    measured("processor time of the manager for that", manager.cpu_seconds - spent, unit="s")


async def _rest(cluster: LocalCluster, manager: Role, measured: Callable[..., None]) -> None:
    await anyio.sleep(10)
    log = anyio.Path(cluster.log("audit"))
    begin, spent = (await log.stat()).st_size, manager.cpu_seconds
    await anyio.sleep(REST_SECONDS)
    idle = (manager.cpu_seconds - spent) / REST_SECONDS * 100
    asked = await requests_of(cluster, rbac.MANAGER, since=begin)
    writes = [request for request in asked if request["verb"] in WRITES and "/leases/" not in request["requestURI"]]
    measured(f"writes at rest in {REST_SECONDS} s", len(writes), unit="", goal=0)
    measured("processor time at rest", idle, unit="% of a core")
    measured("resident", manager.resident_mib, peer=_resident_mib(cluster, "kueue"), unit="MiB")


async def _restart(kube: Kube, manager: Role, measured: Callable[..., None]) -> None:
    """A manager that is stopped gives up its lease; one that is killed leaves it to run out, and the next waits."""
    pods = len(await kube.list(PODS))
    for how, end, goal in (("SIGTERM", manager.stop, 10), ("kill -9", manager.kill, None)):
        await end()
        began = perf_counter()
        await manager.start()
        measured(f"{how}, start again → webhooks answer", perf_counter() - began, unit="s")
        await until("it leads, with every Pod known", lambda: _leads(manager, pods), seconds=60)
        measured(f"{how}, start again → leads, synced", perf_counter() - began, unit="s", goal=goal)


async def _leads(manager: Role, pods: int) -> bool:
    return f'gpustack_ctl_informer_objects{{resource="pods"}} {pods}.0' in await manager.metrics()


@asynccontextmanager
async def _cluster() -> AsyncIterator[LocalCluster]:
    directory = Path(tempfile.mkdtemp(prefix="gsf-", dir="/tmp"))
    spec = ClusterSpec(
        directory=directory,
        kubelet=False,
        kueue=kueue_configuration(manufacturers()),
        # A thousand leases every ten seconds would be the API server's main work: they are renewed more slowly.
        flags={"kube-controller-manager": ("--node-monitor-grace-period=10m",)},
        audit=True,
        die_with_parent=True,
    )
    async with local_cluster(spec) as cluster:
        yield cluster
    shutil.rmtree(directory)


def _manager(cluster: LocalCluster) -> Role:
    port = str(free_ports(1)[0])
    webhook = ("--webhook-port", port, "--webhook-url", f"https://127.0.0.1:{port}")
    kubeconfig = str(kubeconfig_of(cluster, rbac.MANAGER))
    return Role("manager", "--kubeconfig", kubeconfig, *webhook, log=cluster.directory / "manager.log")


async def _add(kube: Kube, nodes: FakeNodes) -> None:
    limiter = anyio.CapacityLimiter(32)

    async def ledger(pool: Pool, name: str) -> None:
        async with limiter:
            spec = devices_spec(pool, name, CARDS)
            node = await kube.get(NODES, name)
            await kube.create(DEVICES, devices(node, spec, _features(pool, name)))

    names = {f"fleet-{number:04d}": POOLS[number % len(POOLS)] for number in range(NODES_OF_FLEET)}
    await nodes.add([_node(pool, name) for name, pool in names.items()])
    async with anyio.create_task_group() as tasks:
        for name, pool in names.items():
            tasks.start_soon(ledger, pool, name)


def _features(pool: Pool, name: str) -> dict[str, str]:
    return feature_labels(devices_spec(pool, name, CARDS), gkey="generic", cores=CORES)


def _node(pool: Pool, name: str) -> FakeNode:
    tokens = {
        "nvidia.com/gpu": str(CARDS),
        "nvidia.com/gpu.shared": str(10 * CARDS),
        "nvidia.com/gpu.sliced": str(SLOTS * CARDS),
    }
    room = {"cpu": str(CORES), "memory": "256Gi", "pods": "110"}
    return FakeNode(name=name, labels=_features(pool, name), capacity=room | tokens)


async def _open(kube: Kube) -> bool:
    for pool in POOLS:
        cards = len(range(POOLS.index(pool), NODES_OF_FLEET, len(POOLS))) * CARDS
        status = (await kube.get(INSTANCE_TYPES, pool.queue)).get("status") or {}
        view = status.get("accelerator") or {}
        if status.get("phase") != "Active" or view.get("capacity") != str(cards):
            return False
        if not is_true(await kube.get(CLUSTER_QUEUES, pool.queue), "Active"):
            return False
        flavor = await kube.get(RESOURCE_FLAVORS, pool.flavor(CARDS))
        if flavor["metadata"]["labels"][f"acceleratable.feature.gpustack.ai/{pool.akey}.capacity"] != str(cards):
            return False
    return True


async def _settled(kube: Kube) -> bool:
    await anyio.sleep(1)
    return all(map(_complete, await kube.list(NODES)))


def _complete(node: Obj) -> bool:
    labelled = any(label.startswith("sliced-max-free-units.fit.") for label in node["metadata"]["labels"])
    return labelled and "nvidia.com/gpu.sliced.units" in node["status"]["allocatable"]


async def _fill(kube: Kube, count: int) -> None:
    """Pods that run beside all queues, evenly spread."""
    limiter = anyio.CapacityLimiter(32)
    hosts = sorted(name_of(node) for node in await kube.list(NODES))

    async def create(number: int) -> None:
        async with limiter:
            await kube.create(
                PODS,
                {
                    "metadata": {"name": f"filler-{number:05d}", "namespace": "default"},
                    "spec": {
                        "nodeName": hosts[number % len(hosts)],
                        "containers": [
                            {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "100m"}}}
                        ],
                    },
                },
            )

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(create, number)

    async def all_run() -> bool:
        await anyio.sleep(2)
        return not await kube.list(PODS, field_selector="status.phase=Pending")

    await until("every Pod runs", all_run, seconds=300)


def _resident_mib(cluster: LocalCluster, program: str) -> float:
    run = Run.load(cluster.directory)
    assert run is not None
    return float(psutil.Process(run.pids[program].number).memory_info().rss) / 2**20
