"""Pins on Workloads: whether they are in use, what one says, and the writes that change it.

The annotation is the whole memory. Whoever judges, lands or widens a pin reads it there, so that a manager that dies
half-way, or another that takes the lead, goes on where this one stopped.

The answer to a write shows the Workload as it was in that moment. If it held no quota and its PodSets do not say what
the annotation says, nobody renders pins. Then they are taken to be out of use for a while, and holds fall back to a
fixed delay, instead of Kueue placing a Workload on the same node nine times a second.
"""

from time import monotonic

import structlog

from gpustack_ctl.accel.entrances import pool_behind
from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.labels import PLACEMENT_PIN
from gpustack_ctl.accel.pins import Pin, carries, format_pin, parse_pin
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.controllers.settings import Settings
from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.crds.setting import WORKLOAD_FIT_AFFINITY
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj, annotations_of, is_true, key_of, name_of, namespace_of, uid_of
from gpustack_ctl.kube.resources import WORKLOADS

log = structlog.get_logger()

MANAGER = "gpustack-placement-pin"
OUT_OF_USE_SECONDS = 30.0


class Pins:
    """The pins of every Workload."""

    def __init__(self, *, kube: Kube, sources: Sources, settings: Settings, table: Manufacturers) -> None:
        self._kube = kube
        self._sources = sources
        self._settings = settings
        self._table = table
        self._out_of_use_until = 0.0

    @property
    def on(self) -> bool:
        return self._settings.on(WORKLOAD_FIT_AFFINITY) and monotonic() >= self._out_of_use_until

    def pool(self, workload: Obj) -> Pool | None:
        """The pool that the Workload queues for, when it is one of ours: nothing else is pinned."""
        queue = workload["spec"].get("queueName") or ""
        return pool_behind(
            self._sources.local_queues.get(f"{namespace_of(workload)}/{queue}"),
            cluster_queue_of=self._sources.cluster_queues.get,
            instance_type_of=self._sources.instance_types.get,
            table=self._table,
        )

    async def write(self, workload: Obj, pin: Pin | None, *, active: bool | None = None) -> Obj:
        """Change the annotation, None removing it, and with `active` the Workload's `spec.active`.

        Raises Conflict where the Workload is not as it was read: the decision may be another by now.
        """
        version = workload["metadata"]["resourceVersion"]
        return await self._patch(workload, _annotation(pin), active=active, resourceVersion=version)

    async def annotate(self, workload: Obj, pin: Pin, *, active: bool | None = None) -> Obj:
        """The same, whatever the Workload has become since it was read."""
        return await self._patch(workload, _annotation(pin), active=active, uid=uid_of(workload))

    async def touch(self, workload: Obj) -> Obj:
        """Change nothing, so that the webhook renders what the annotation says already."""
        return await self._patch(workload, {}, uid=uid_of(workload))

    async def _patch(self, workload: Obj, metadata: Obj, *, active: bool | None = None, **precondition: str) -> Obj:
        patch: Obj = {"metadata": {**metadata, **precondition}}
        if active is not None:
            patch["spec"] = {"active": active}
        patched = await self._kube.patch(
            WORKLOADS, name_of(workload), patch, namespace=namespace_of(workload), field_manager=MANAGER
        )
        self._sources.workloads.observe(patched)
        if not is_true(patched, "QuotaReserved") and not landed(patched) and self.on:
            self._out_of_use_until = monotonic() + OUT_OF_USE_SECONDS
            log.warning("pins are not rendered; is the Workload webhook served?", workload=key_of(workload))
        return patched


def pin_of(workload: Obj) -> Pin | None:
    return parse_pin(annotations_of(workload).get(PLACEMENT_PIN))


def landed(workload: Obj) -> bool:
    """Whether the PodSets are pinned as the annotation says."""
    pin = pin_of(workload)
    return all(carries(pod_set.get("template") or {}, pin) for pod_set in workload["spec"].get("podSets") or ())


def is_active(workload: Obj) -> bool:
    return workload["spec"].get("active") is not False


def urgency(workload: Obj) -> tuple[int, str, str]:
    """Sorts Workloads: those of high priority first, then the oldest."""
    created = str(workload["metadata"].get("creationTimestamp", ""))
    return -(workload["spec"].get("priority") or 0), created, key_of(workload)


def _annotation(pin: Pin | None) -> Obj:
    return {"annotations": {PLACEMENT_PIN: None if pin is None else format_pin(pin)}}
