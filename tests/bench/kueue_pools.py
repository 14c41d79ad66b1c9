"""Three ways into the same cards of one Kueue: our pool, the same queue with a check that answers Ready at once, and
the same queue with no check at all. What differs between them is gate 3 and nothing else.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import anyio

from gpustack_ctl.accel.labels import KUEUE_QUEUE_NAME
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import Conflict, NotFound
from gpustack_ctl.kube.informer import Informer, Informers
from gpustack_ctl.kube.objects import Obj, is_true, key_of, name_of, namespace_of
from gpustack_ctl.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    INSTANCE_TYPES,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    WORKLOADS,
)
from gpustack_ctl.kube.times import now
from gpustack_ctl.localcluster import FakeNodes, LocalCluster
from tests.e2e.roles import Role, manager_of, until
from tests.integration.controllers.stage import Pool, Stage, a_pool, pod

INSTANT = "bench-instant"
PLAIN = "bench-plain"
NAMESPACE = "bench-gate3"


@dataclass(frozen=True, slots=True)
class Pools:
    """A pool of nodes and the queues that lead to it."""

    stage: Stage
    pool: Pool
    manager: Role
    workloads: Informer

    @property
    def kube(self) -> Kube:
        return self.stage.kube

    async def seconds_to_admit(self, queue: str, pods: int) -> float:
        """From the first of so many Pods of one whole card that is admitted to the last; then they are gone again.

        All are made while the queue is on hold.
        """
        await self._hold(queue, held=True)
        for number in range(pods):
            await self.kube.create(PODS, self.asking(f"p{number}", queue, {"nvidia.com/gpu": "1"}))
        await until("all wait", lambda: self._count(pods, "QuotaReserved", False))
        times: list[float] = []

        def note(old: Obj | None, new: Obj | None) -> None:
            if new is not None and is_true(new, "Admitted") and not (old is not None and is_true(old, "Admitted")):
                times.append(perf_counter())

        unsubscribe = self.workloads.subscribe(note)
        await self._hold(queue, held=False)
        await until("all are admitted", lambda: self._count(pods, "Admitted", True), seconds=120)
        unsubscribe()
        await self.clear()
        return times[-1] - times[0]

    async def admitted(self, wanted: int) -> None:
        """So many Workloads are admitted; returns with the change that made it so."""
        reached = anyio.Event()

        def look(_old: Obj | None, _new: Obj | None) -> None:
            if sum(is_true(each, "Admitted") for each in self.workloads.list()) >= wanted:
                reached.set()

        unsubscribe = self.workloads.subscribe(look)
        with anyio.fail_after(60):
            await reached.wait()
        unsubscribe()

    async def clear(self) -> None:
        """No Pod is left, and no Workload."""
        for each in await self.kube.list(PODS, NAMESPACE):
            await self.kube.delete(PODS, name_of(each), NAMESPACE, grace_period=0)
        await until("all are gone", lambda: self._count(0, "Finished", False), seconds=60)

    def asking(self, name: str, queue: str, limits: dict[str, str]) -> Obj:
        asked = pod(self.pool, NAMESPACE, name, limits)
        if queue in (INSTANT, PLAIN):
            asked["metadata"]["labels"][KUEUE_QUEUE_NAME] = queue
        return asked

    async def _count(self, wanted: int, kind: str, value: bool) -> bool:
        mine = [each for each in self.workloads.list() if namespace_of(each) == NAMESPACE]
        return len(mine) == wanted and all(is_true(each, kind) is value for each in mine)

    async def _hold(self, queue: str, *, held: bool) -> None:
        if queue in (INSTANT, PLAIN):
            await self.kube.patch(CLUSTER_QUEUES, queue, {"spec": {"stopPolicy": "Hold" if held else "None"}})
            return
        await self.kube.patch(INSTANCE_TYPES, queue, {"spec": {"inactive": held}})

        async def stopped() -> bool:
            return ((await self.kube.get(CLUSTER_QUEUES, queue))["spec"].get("stopPolicy") == "Hold") is held

        await until("the queue follows", stopped)


@asynccontextmanager
async def pools(cluster: LocalCluster, directory: Path, *, nodes: int, cards: int) -> AsyncIterator[Pools]:
    """The manager runs in a process of its own; the instant check is answered by this one."""
    async with Kube.connect(kubeconfig=str(cluster.kubeconfig)) as kube, anyio.create_task_group() as tasks:
        manager = manager_of(cluster, directory)
        await manager.start()
        fake = FakeNodes(cluster.kubeconfig, run_pods=True)
        stage, pool = Stage(kube, fake), a_pool()
        tasks.start_soon(fake.run)
        informers = Informers(kube)
        await tasks.start(informers.run)
        workloads = informers.of(WORKLOADS)
        try:
            await kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            for _ in range(nodes):
                await stage.add_node(pool, cards=cards)
            await until("the pool is Active", lambda: _open(kube, pool, nodes * cards), seconds=60)
            await _copies(kube, pool)
            tasks.start_soon(_answer_at_once, kube, workloads)
            await workloads.wait_synced()
            yield Pools(stage, pool, manager, workloads)
        finally:
            with anyio.CancelScope(shield=True):
                await kube.delete(NAMESPACES, NAMESPACE)
                await fake.remove(*stage.added)
                await manager.stop()
            tasks.cancel_scope.cancel()


async def _open(kube: Kube, pool: Pool, cards: int) -> bool:
    if ((await kube.get(INSTANCE_TYPES, pool.queue)).get("status") or {}).get("phase") != "Active":
        return False
    (group,) = (await kube.get(CLUSTER_QUEUES, pool.queue))["spec"]["resourceGroups"]
    return sum(int(each["resources"][0]["nominalQuota"]) for each in group["flavors"]) == cards * 1_600_000


async def _copies(kube: Kube, pool: Pool) -> None:
    """The other two queues: our own queue's spec without our check."""
    check = {"metadata": {"name": INSTANT}, "spec": {"controllerName": "bench/instant"}}
    await kube.create(ADMISSION_CHECKS, check)
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": now()}
    await kube.patch(ADMISSION_CHECKS, INSTANT, {"status": {"conditions": [active]}}, subresource="status")
    spec = (await kube.get(CLUSTER_QUEUES, pool.queue))["spec"]
    spec = {key: value for key, value in spec.items() if key not in ("admissionChecksStrategy", "stopPolicy")}
    for name in (INSTANT, PLAIN):
        checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": INSTANT}]}} if name == INSTANT else {}
        await kube.create(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": {**spec, **checks}})
        queue = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"clusterQueue": name}}
        await kube.create(LOCAL_QUEUES, queue)


async def _answer_at_once(kube: Kube, workloads: Informer) -> None:
    """What any check has to do at least: one write, to a Workload that holds quota."""
    asked, hear = anyio.create_memory_object_stream[Obj](1000)

    def look(_: Obj | None, new: Obj | None) -> None:
        if new is not None and is_true(new, "QuotaReserved") and _pending(new):
            asked.send_nowait(new)

    workloads.subscribe(look)
    async for workload in hear:
        current = workloads.get(key_of(workload))
        if current is None or not _pending(current):
            continue
        state = {"name": INSTANT, "state": "Ready", "message": "", "lastTransitionTime": now()}
        version = {"resourceVersion": current["metadata"]["resourceVersion"]}
        patch = {"metadata": version, "status": {"admissionChecks": [state]}}
        where = {"namespace": namespace_of(current), "subresource": "status"}
        try:
            workloads.observe(await kube.patch(WORKLOADS, name_of(current), patch, **where))
        except (Conflict, NotFound):
            continue


def _pending(workload: Obj) -> bool:
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    return any(each["name"] == INSTANT and each["state"] == "Pending" for each in checks)
