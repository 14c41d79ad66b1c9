"""Gate 5 on nodes without a kubelet: what an agent would give every bound Pod, written where an agent writes it.

It gives cards by the same functions, following the plan that came with the Pod, and publishes the ledger. A Pod that
finds no room is refused as a kubelet refuses it, and remembered: gate 3 let it through.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from gpustack_ctl.accel.cards import NodeCards, cards_of
from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.labels import ALLOCATED, PLANNED
from gpustack_ctl.accel.ledger import Ledger, asking, pod_key, rebuild, status_of
from gpustack_ctl.accel.placement import Choice, choose, with_choices
from gpustack_ctl.accel.plans import open_entries, parse_plan
from gpustack_ctl.accel.records import Entry, format_record, record_of
from gpustack_ctl.accel.refusals import Refusal
from gpustack_ctl.accel.requests import read_pod
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import Conflict, NotFound
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import Obj, annotations_of, deleting, key_of, name_of, namespace_of
from gpustack_ctl.kube.resources import DEVICES, PODS

TABLE = manufacturers()


class Allocators:
    """The agents of all nodes that have a ledger."""

    def __init__(self, kube: Kube, informers: Informers, *, after: float) -> None:
        self._kube = kube
        self._pods = informers.of(PODS)
        self._devices = informers.of(DEVICES)
        self._after = after
        self._changed = anyio.Event()
        self.refused: list[str] = []

    async def run(self) -> None:
        await self._pods.wait_synced()
        await self._devices.wait_synced()
        for informer in (self._pods, self._devices):
            informer.subscribe(lambda _old, _new: self._changed.set())
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            await anyio.sleep(self._after)
            for devices in self._devices.list():
                await self._settle(devices)

    def ledger(self, node: str) -> Ledger:
        devices = self._devices.get(node)
        assert devices is not None
        return rebuild(cards_of(devices["spec"]), self._bound(node), table=TABLE)

    def _bound(self, node: str) -> list[Obj]:
        return [pod for pod in self._pods.list() if pod["spec"].get("nodeName") == node]

    async def _settle(self, devices: Obj) -> None:
        node = name_of(devices)
        for pod in self._bound(node):
            if not deleting(pod) and not _ended(pod) and asking(pod, TABLE) and ALLOCATED not in annotations_of(pod):
                await self._allocate(pod, node)
        status = status_of(self.ledger(node))
        if (self._devices.get(node) or {}).get("status") != status:
            try:
                patched = await self._kube.patch(DEVICES, node, {"status": status}, subresource="status")
            except NotFound:
                return
            self._devices.observe(patched)

    async def _allocate(self, pod: Obj, node: str) -> None:
        cards: NodeCards = self.ledger(node).on(node)
        siblings = [record_of(each) for each in self._bound(node) if ALLOCATED in annotations_of(each)]
        entries = open_entries(parse_plan(annotations_of(pod).get(PLANNED, ""), node), siblings)
        record: dict[str, tuple[Entry, ...]] = {}
        for claim in read_pod(pod["spec"], table=TABLE, pool=None).containers:
            planned = entries[0].get(claim.container, ()) if entries else ()
            chosen = choose(claim, cards, prefer=planned)
            if isinstance(chosen, Refusal):
                await self._refuse(pod, chosen)
                return
            cards = with_choices(cards, pod_key(pod), chosen)
            record[claim.container] = tuple(map(Choice.entry, chosen))
        await self._write(pod, {"metadata": {"annotations": {ALLOCATED: format_record(record)}}})

    async def _refuse(self, pod: Obj, refusal: Refusal) -> None:
        self.refused.append(f"{key_of(pod)}: {refusal.message}")
        await self._write(pod, {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}, status=True)

    async def _write(self, pod: Obj, patch: Obj, *, status: bool = False) -> None:
        where = {"namespace": namespace_of(pod), "subresource": "status" if status else None}
        try:
            self._pods.observe(await self._kube.patch(PODS, name_of(pod), patch, **where))
        except (Conflict, NotFound):
            return


@asynccontextmanager
async def allocating(kube: Kube, *, after: float = 0.1) -> AsyncIterator[Allocators]:
    """Agents that take `after` seconds to see what has changed."""
    informers = Informers(kube)
    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        allocators = Allocators(kube, informers, after=after)
        tasks.start_soon(allocators.run)
        try:
            yield allocators
        finally:
            tasks.cancel_scope.cancel()


def _ended(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
