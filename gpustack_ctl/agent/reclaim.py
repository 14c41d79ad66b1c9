"""Taking back what was promised to Pods that are gone: the promise, partitions, slices, the work directory.

Only the end of the Pod object counts, never of a container: until then its partitions may be in use. A Pod that the
watch never showed (it came and went while the watch was away) is asked for by name before anything is taken back.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import structlog
from anyio import to_thread

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.agent.journal import JournalError
from gpustack_ctl.agent.node_lock import NodeLock
from gpustack_ctl.agent.partitions import PartitionError, Partitions
from gpustack_ctl.agent.reservations import Reservations
from gpustack_ctl.agent.responders.enforcer import HoldsHostState, ReleaseError
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake
from gpustack_ctl.kube.errors import KubeError, NotFound
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, uid_of
from gpustack_ctl.kube.resources import PODS

log = structlog.get_logger()


class Reclaim(Controller):
    """Frees what ended Pods held. Keys are Pod UIDs."""

    name: ClassVar[str] = "reclaim"

    def __init__(
        self,
        *,
        pods: Informer,
        reservations: Reservations,
        partitions: Partitions,
        slices: Mapping[str, HoldsHostState],
        kube: Kube,
        work_dir: Path,
        lock: NodeLock,
    ) -> None:
        """`slices` are by the resource name of a slice, `work_dir` holds the Pods' work directories by UID.

        `lock` is the node's.
        """
        self._pods = pods
        self._reservations = reservations
        self._partitions = partitions
        self._slices = slices
        self._kube = kube
        self._work_dir = work_dir
        self._lock = lock

    def wakes(self) -> Iterable[Wake]:
        yield Wake(self._pods, _ended)

    async def reconcile(self, key: str) -> Result:
        await self._free(key)
        return DONE

    async def sweep(self) -> None:
        """Free what no event told of: Pods that ended while the watch, or the agent, was away."""
        present = {uid_of(pod) for pod in self._pods.list()}
        holders = {promise.pod for promise in self._reservations} | await self._partitions.owners()
        for pod in sorted(holders):
            try:
                if pod.uid not in present and await self._is_gone(pod):
                    await self._free(pod.uid)
            except (KubeError, PartitionError, ReleaseError, JournalError) as error:
                log.warning("what a Pod held cannot be freed yet", pod=str(pod), uid=pod.uid, error=str(error))
        for uid in self._orphaned(present):
            try:
                await self._free(uid)
            except (PartitionError, ReleaseError, JournalError) as error:
                log.warning("what a Pod left cannot be cleared yet", uid=uid, error=str(error))

    def _orphaned(self, present: set[str]) -> set[str]:
        """Pods of which only a work directory is left: not on the node any more, and promised nothing.

        Whoever is just being admitted is promised first, so the directory of a Pod not yet seen is not taken for one.
        """
        if not self._work_dir.is_dir():
            return set()
        left = {directory.name for directory in self._work_dir.iterdir()}
        return left - present - {promise.pod.uid for promise in self._reservations}

    async def _is_gone(self, pod: PodKey) -> bool:
        try:
            found = await self._kube.get(PODS, pod.name, pod.namespace)
        except NotFound:
            return True
        return uid_of(found) != pod.uid

    async def _free(self, uid: str) -> None:
        """What is in the hardware first: while a partition or a slice is in use, its place stays promised."""
        await self._partitions.destroy(uid)
        work = self._work_dir / uid
        promised = {key.resource for key in self._reservations.of_pod(uid)}
        for resource, slices in self._slices.items():
            # A slice that was refused half-made is promised nobody, and has left its note in the work directory.
            if resource in promised or work.is_dir():
                await slices.release(uid)
        async with self._lock.held():
            freed = self._reservations.of_pod(uid)
            await self._reservations.drop(freed)
        if work.is_dir():
            await to_thread.run_sync(shutil.rmtree, work)
        if freed:
            log.info("promises of an ended Pod freed", uid=uid, containers=[key.container for key in freed])


def _ended(old: Obj | None, new: Obj | None) -> Iterable[str]:
    if old is not None and (new is None or uid_of(new) != uid_of(old)):
        yield uid_of(old)
