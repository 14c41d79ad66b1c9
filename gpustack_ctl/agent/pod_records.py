"""Allocation records: every promise, written on its Pod, for as long as it takes.

The record is what the rest of the cluster accounts by. It follows the promise: written outside the lock and after the
answer, tried again until it has landed or the Pod is gone, and written anew when somebody has made it unreadable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.accel.records import format_record, readable_record
from gpustack_ctl.agent.fault_points import reach
from gpustack_ctl.agent.publication import FIELD_MANAGER
from gpustack_ctl.agent.reservations import Reservations
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, changes
from gpustack_ctl.kube.errors import NotFound
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, annotations_of, name_of, namespace_of, uid_of
from gpustack_ctl.kube.resources import PODS


class PodRecords(Controller):
    """Keeps the allocation record of this node's Pods as promised. Keys are Pods."""

    name: ClassVar[str] = "allocation-records"
    workers: ClassVar[int] = 4

    def __init__(self, *, pods: Informer, reservations: Reservations, kube: Kube) -> None:
        self._pods = pods
        self._reservations = reservations
        self._kube = kube
        reservations.on_change(self._look_again)

    def wakes(self) -> Iterable[Wake]:
        yield changes(self._pods, when=_record_differs)

    async def reconcile(self, key: str) -> Result:
        pod = self._pods.get(key)
        if pod is None:
            return DONE  # gone, or not seen yet: its arrival wakes this again
        promised = self._reservations.record(uid_of(pod))
        if not promised:
            return DONE
        record = format_record({**readable_record(pod), **promised})
        if annotations_of(pod).get(ALLOCATED) == record:
            return DONE
        # With its uid, so that a record never lands on a new Pod of an old name.
        patch = {"metadata": {"uid": uid_of(pod), "annotations": {ALLOCATED: record}}}
        try:
            patched = await self._kube.patch(
                PODS, name_of(pod), patch, namespace=namespace_of(pod), field_manager=FIELD_MANAGER
            )
        except NotFound:
            return DONE
        reach("after-record")
        self._pods.observe(patched)
        return DONE

    def _look_again(self, pod: PodKey) -> None:
        if hasattr(self, "queue"):  # before `run` there is none; every Pod is looked at when it starts
            self.queue.add(f"{pod.namespace}/{pod.name}")


def _record_differs(old: Obj | None, new: Obj | None) -> bool:
    """A Pod that is new, or whose record somebody touched."""
    if new is None:
        return False
    return old is None or annotations_of(old).get(ALLOCATED) != annotations_of(new).get(ALLOCATED)
