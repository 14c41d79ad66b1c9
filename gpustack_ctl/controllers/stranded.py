"""Stranded Workloads: kept off every node by the fit labels, they are parked and told why, as if gate 3 had held them.

The labels act while Kueue looks for a place, so a Workload that no card has room for reserves no quota and gate 3 is
never asked about it. Left like that its user would read `excluded: affinity` and nothing of cards, and it would have no
part in the order in which parked Workloads are let go nor in the bound on their wait. So it is judged here over the
nodes of its pool. If no card has room it gets the pin that gate 3 would have given it, and parking takes it from there.

Owns the first pin of a Workload that has none and holds no quota. One that waits for credits is left to Kueue, whose
own order and preemption are for that.

Woken by Workloads that Kueue has tried to place in vain, and by time for as long as they are neither placed nor parked.
"""

from collections.abc import Iterable

import structlog

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.feasibility import Demand, Miss, fit
from gpustack_ctl.accel.pins import park
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.requests import read_pod
from gpustack_ctl.controllers.pins import Pins, is_active, landed, pin_of
from gpustack_ctl.controllers.quotas import quotas_of
from gpustack_ctl.controllers.rooms import Rooms
from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.controllers.verdicts import HELD
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, again, changes
from gpustack_ctl.kube.errors import Conflict, NotFound
from gpustack_ctl.kube.events import Events
from gpustack_ctl.kube.objects import Obj, condition, deleting, is_true, key_of
from gpustack_ctl.kube.times import now

log = structlog.get_logger()

_BOUND = 2_000
_LOOK_AGAIN_SECONDS = 3.0
"""A label or a count of credits that is a moment behind is looked at again after this."""


class Stranded(Controller):
    """Keys are `namespace/name` of Workloads."""

    name = "stranded"

    def __init__(self, *, sources: Sources, pins: Pins, rooms: Rooms, events: Events, table: Manufacturers) -> None:
        self._sources = sources
        self._pins = pins
        self._rooms = rooms
        self._events = events
        self._table = table

    def wakes(self) -> Iterable[Wake]:
        yield changes(self._sources.workloads, key=key_of, when=lambda _, new: new is not None and _in_vain(new))

    async def reconcile(self, key: str) -> Result:
        workload = self._sources.workloads.get(key)
        if workload is None or not _in_vain(workload) or not self._pins.on:
            return DONE
        pool = self._pins.pool(workload)
        if pool is None or pool.akey is None:
            return DONE
        demands = self._demands(workload, pool, pool.akey)
        if not demands:
            return DONE
        if not self._has_credits(pool, demands):
            return again(_LOOK_AGAIN_SECONDS)
        await self._rooms.work_out(pool.name)
        rooms = self._rooms.of_queue(pool.name)
        found = fit(demands, {name: room.cards for name, room in rooms.items()}, bound=_BOUND)
        if not isinstance(found, Miss):
            return again(_LOOK_AGAIN_SECONDS)
        await self._park(workload, found.message)
        return DONE

    def _demands(self, workload: Obj, pool: Pool, akey: str) -> list[Demand]:
        """What it asks for, anywhere in the pool; nothing when that cannot be read, which gate 3 will say."""
        demands = []
        for pod_set in workload["spec"].get("podSets") or ():
            pod = read_pod((pod_set.get("template") or {}).get("spec") or {}, table=self._table, pool=pool)
            if pod.errors:
                return []
            if not pod.none:
                demands.append(Demand(pod_set.get("name", "main"), pod, pod_set.get("count", 1), akey))
        return demands

    def _has_credits(self, pool: Pool, demands: Iterable[Demand]) -> bool:
        """Whether some flavor's unreserved credits would do: else the Workload waits for those, and for no card."""
        asked = sum(demand.pod.units * demand.pods for demand in demands)
        queue = self._sources.cluster_queues.get(pool.name)
        credit = self._table.by_key[pool.manufacturer].credits if pool.manufacturer else ""
        quotas = quotas_of(queue) if queue is not None else ()
        return any(quota.resource == credit and quota.left >= asked for quota in quotas)

    async def _park(self, workload: Obj, why: str) -> None:
        try:
            patched = await self._pins.write(workload, park(None, why=why, at=now()))
        except (Conflict, NotFound):
            return  # it has changed since, and that wakes us again
        if not landed(patched):
            return
        log.info("parked before it was placed", workload=key_of(workload), message=why)
        self._events.emit(workload, type="Warning", reason=HELD, action="Hold", message=why)


def _in_vain(workload: Obj) -> bool:
    """Whether Kueue has looked for a place and found none, and no pin says why."""
    reserved = condition(workload, "QuotaReserved")
    return (
        reserved is not None
        and reserved.get("status") == "False"
        and pin_of(workload) is None
        and is_active(workload)
        and not is_true(workload, "Finished")
        and not deleting(workload)
    )
