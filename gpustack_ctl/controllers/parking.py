"""Parking: held Workloads wait without quota, and are let go as soon as there is room for them.

A held Workload is parked by a pin that no node matches. Kueue asks nobody about it any more, so whatever makes room is
watched here: for every Workload that waits under a pin, the nodes that would take it now are worked out, by priority
and then age, each counted before the next. A pin that says otherwise is written anew, and Kueue places the Workload
within a fraction of a second.

Owns the nodes in the pins of Workloads that hold no quota, and the nodes kept for one that has waited too long. One key
stands for all of them, since what one Workload is given another cannot have.

Woken by Devices, Nodes and claims of Pods, by Workloads that come to wait or let go of nodes, by flavors, queues and
instance types, and by the setting. A burst of changes is looked at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic

import anyio
import structlog

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.parking import Asked, Lot, Spot, Waiting
from gpustack_ctl.accel.pins import Pin
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.requests import read_pod
from gpustack_ctl.controllers.pins import Pins, is_active, landed, pin_of, urgency
from gpustack_ctl.controllers.rooms import Rooms, requests_of
from gpustack_ctl.controllers.settings import Settings
from gpustack_ctl.controllers.sources import Sources, claim_changed, labels_changed, spec_changed
from gpustack_ctl.controllers.workloads import holds_accelerators, is_coming, nodes_of
from gpustack_ctl.crds.setting import WORKLOAD_FIT_AFFINITY
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, again, changes
from gpustack_ctl.kube.errors import Conflict, NotFound
from gpustack_ctl.kube.events import Events
from gpustack_ctl.kube.objects import Obj, deleting, is_true, key_of, name_of, uid_of
from gpustack_ctl.kube.times import seconds_since

log = structlog.get_logger()

RESERVE_AFTER_SECONDS = 300.0
"""How long a Workload waits before nodes are kept for it."""

_ALL = "all"
_PINNED = "pinned"
#: A pass takes at most a fifth of the time.
_REST, _SHARE = 0.05, 4
#: A Workload that was let go and not placed for so long is in want of something else than cards.
_PLACED_WITHIN = 5.0
#: A Workload that was held so often is let go again after a while only, doubled with every round, up to the longest.
_FREE_ROUNDS, _FIRST_REST, _LONGEST_REST = 6, 0.5, 30.0
_WRITERS = 8


@dataclass(frozen=True, slots=True)
class _Held:
    """A Workload that waits under a pin."""

    workload: Obj
    pin: Pin
    pool: Pool


class Parking(Controller):
    """Its one key stands for every Workload that waits."""

    name = "parking"
    workers = 1

    def __init__(
        self,
        *,
        sources: Sources,
        settings: Settings,
        pins: Pins,
        rooms: Rooms,
        events: Events,
        table: Manufacturers,
        reserve_after: float = RESERVE_AFTER_SECONDS,
    ) -> None:
        self._sources = sources
        self._settings = settings
        self._pins = pins
        self._rooms = rooms
        self._events = events
        self._table = table
        self._reserve_after = reserve_after
        self._lots: dict[str, Lot] = {}
        self._let_go: dict[str, float] = {}
        self._asked_for: dict[str, tuple[object, Pool, tuple[Asked, ...]]] = {}
        self._rests_until = 0.0
        sources.workloads.add_index(_PINNED, _pinned)

    def wakes(self) -> Iterable[Wake]:
        yield Wake(self._sources.workloads, self._workload_changed)
        yield Wake(self._sources.devices, self._devices_changed)
        yield Wake(self._sources.nodes, self._node_changed)
        yield Wake(self._sources.pods, self._pod_changed)
        for informer in (self._sources.flavors, self._sources.cluster_queues, self._sources.instance_types):
            yield Wake(informer, self._pool_changed)
        yield changes(self._sources.local_queues, key=lambda _: self._if_any_waits(), when=spec_changed)
        yield self._settings.wake(WORKLOAD_FIT_AFFINITY, keys=self._if_any_waits)

    async def reconcile(self, key: str) -> Result:  # noqa: ARG002 - there is one
        if (rest := self._rests_until - monotonic()) > 0:
            return again(rest)
        for pool in {held.pool.name for held in self._waiting()}:
            await self._rooms.work_out(pool)
        started = monotonic()
        writes, soon = self._decide(self._waiting())
        self._rests_until = monotonic() + max(_REST, _SHARE * (monotonic() - started))
        limit = anyio.CapacityLimiter(_WRITERS)
        async with anyio.create_task_group() as tasks:
            for held, pin in writes:
                tasks.start_soon(self._write, held, pin, limit)
        return again(soon) if soon is not None else DONE

    def _decide(self, waiting: list[_Held]) -> tuple[list[tuple[_Held, Pin | None]], float | None]:
        """The pins to write, and in how many seconds time alone may change them."""
        self._forget_all_but(waiting)
        if not self._settings.on(WORKLOAD_FIT_AFFINITY):
            return [(held, None) for held in waiting], None
        if not self._pins.on:
            return [], _LONGEST_REST
        now = datetime.now(UTC)
        by_pool: dict[str, list[_Held]] = {}
        for held in waiting:
            by_pool.setdefault(held.pool.name, []).append(held)
        writes: list[tuple[_Held, Pin | None]] = []
        times: list[float] = []
        for name, helds in by_pool.items():
            lot = self._lots.setdefault(name, Lot())
            asked = [self._asked(held, now) for held in helds]
            rooms = self._rooms.of_queue(name)
            spots = lot.let_go(asked, rooms)
            for held in helds:
                pin = self._pin(held, spots[key_of(held.workload)], rooms, now, times)
                if pin != held.pin:
                    writes.append((held, pin))
        self._lots = {name: self._lots[name] for name in by_pool}
        return writes, min(times, default=None)

    def _forget_all_but(self, waiting: list[_Held]) -> None:
        free = {key_of(held.workload) for held in waiting if not held.pin.parked}
        self._let_go = {key: since for key, since in self._let_go.items() if key in free}
        uids = {uid_of(held.workload) for held in waiting}
        self._asked_for = {uid: known for uid, known in self._asked_for.items() if uid in uids}

    def _waiting(self) -> list[_Held]:
        """Everyone who waits under a pin, the most urgent first."""
        found = []
        for workload in self._sources.workloads.by_index(_PINNED, _ALL):
            pin, pool = pin_of(workload), self._pins.pool(workload)
            if pin is not None and pool is not None and is_active(workload):
                found.append(_Held(workload, pin, pool))
        return sorted(found, key=lambda held: urgency(held.workload))

    def _asked(self, held: _Held, now: datetime) -> Waiting:
        return Waiting(
            key=key_of(held.workload),
            akey=held.pool.akey or "",
            asked=self._asked_by(held),
            reserved=held.pin.reserved,
            overdue=seconds_since(held.pin.since, now) >= self._reserve_after,
            uncounted=_rest(held.pin, now) > 0 or self._since_let_go(held) >= _PLACED_WITHIN,
        )

    def _since_let_go(self, held: _Held) -> float:
        """Seconds for which the Workload has been free to go where its pin says; from now on, if nobody knows."""
        if held.pin.parked:
            return 0.0
        return monotonic() - self._let_go.setdefault(key_of(held.workload), monotonic())

    def _asked_by(self, held: _Held) -> tuple[Asked, ...]:
        """What the Workload asks for, read once for as long as it and its pool stay the same."""
        uid, generation = uid_of(held.workload), held.workload["metadata"].get("generation")
        known = self._asked_for.get(uid)
        if known is None or known[0] != generation or known[1] != held.pool:
            pod_sets = held.workload["spec"].get("podSets") or ()
            read = tuple(self._read(pod_set, held.pool) for pod_set in pod_sets)
            known = self._asked_for[uid] = generation, held.pool, read
        return known[2]

    def _read(self, pod_set: Obj, pool: Pool) -> Asked:
        spec = (pod_set.get("template") or {}).get("spec") or {}
        demand = read_pod(spec, table=self._table, pool=pool)
        count = pod_set.get("count")
        pods = count if isinstance(count, int) else 1
        return Asked(str(pod_set.get("name", "main")), demand, pods, tuple(sorted(requests_of(spec).items())))

    def _pin(self, held: _Held, spot: Spot, rooms: Iterable[str], now: datetime, times: list[float]) -> Pin:
        """The pin that the spot asks for; `times` takes down when that will change by itself."""
        pin = replace(held.pin, reserved=spot.reserved)
        waited = seconds_since(pin.since, now)
        if spot.parked:
            if waited < self._reserve_after:
                times.append(self._reserve_after - waited)
            return replace(pin, nodes=(), excluded=None)
        if (rest := _rest(pin, now)) > 0:
            times.append(rest)
            return replace(pin, nodes=(), excluded=None)
        times.append(_PLACED_WITHIN)
        if self._since_let_go(held) < _PLACED_WITHIN and any(held.pin.allows(n) and spot.allows(n) for n in rooms):
            return pin  # Kueue is at it, and to write the Workload is to make Kueue's own write of it fail
        return replace(pin, nodes=spot.nodes, excluded=spot.excluded)

    async def _write(self, held: _Held, pin: Pin | None, limit: anyio.CapacityLimiter) -> None:
        async with limit:
            try:
                patched = await self._pins.write(held.workload, pin)
            except (Conflict, NotFound):
                return  # it has changed since, and that wakes us again
        if pin is None or not landed(patched):
            return
        workload, key = held.workload, key_of(held.workload)
        if pin.reserved and not held.pin.reserved:
            message = f"has waited since {pin.since}: {', '.join(pin.reserved)} kept for it"
            log.info("nodes kept for a Workload", workload=key, nodes=pin.reserved)
            self._events.emit(workload, reason="NodesReserved", action="Reserve", message=message)
        if not pin.parked:
            self._let_go[key] = monotonic()
            log.info("let go", workload=key, nodes=pin.nodes, excluded=pin.excluded)

    def _workload_changed(self, old: Obj | None, new: Obj | None) -> Iterable[str]:
        before, after = _takes_room(old), _takes_room(new)
        if before != after:
            self._rooms.changed(*before[1], *after[1])
            return self._if_any_waits()
        return [_ALL] if new is not None and _waits(new) else ()

    def _devices_changed(self, old: Obj | None, new: Obj | None) -> Iterable[str]:
        if not spec_changed(old, new):
            return ()  # what the cards hold is read from the Pods
        self._rooms.changed(name_of(new or old or {}))
        return self._if_any_waits()

    def _node_changed(self, old: Obj | None, new: Obj | None) -> Iterable[str]:
        regrouped = labels_changed(old, new)
        if not regrouped and _allocatable(old) == _allocatable(new):
            return ()
        self._rooms.changed(name_of(new or old or {}))
        if regrouped:
            self._rooms.regrouped()
        return self._if_any_waits()

    def _pod_changed(self, old: Obj | None, new: Obj | None) -> Iterable[str]:
        if not claim_changed(old, new):
            return ()
        self._rooms.changed(*(each["spec"]["nodeName"] for each in (old, new) if each and each["spec"].get("nodeName")))
        return self._if_any_waits()

    def _pool_changed(self, old: Obj | None, new: Obj | None) -> Iterable[str]:
        if not spec_changed(old, new):
            return ()
        self._rooms.regrouped()
        return self._if_any_waits()

    def _if_any_waits(self) -> Iterable[str]:
        return [_ALL] if self._sources.workloads.by_index(_PINNED, _ALL) else ()


def _pinned(workload: Obj) -> Iterable[str]:
    return [_ALL] if _waits(workload) else ()


def _waits(workload: Obj) -> bool:
    """Whether the Workload waits without quota under a pin."""
    return (
        pin_of(workload) is not None
        and not is_true(workload, "QuotaReserved")
        and not is_true(workload, "Finished")
        and not deleting(workload)
    )


def _takes_room(workload: Obj | None) -> tuple[bool, frozenset[str]]:
    """Whether the Workload holds, and the nodes where it holds accelerators or soon may."""
    holds = workload is not None and holds_accelerators(workload)
    if workload is None or not (holds or is_coming(workload)):
        return False, frozenset()
    return holds, nodes_of(workload)


def _rest(pin: Pin, now: datetime) -> float:
    """Seconds until a Workload that was held may be let go again: facts and verdicts that disagree must not spin."""
    turns = min(pin.rounds - _FREE_ROUNDS, 16)
    return 0.0 if turns <= 0 else min(_LONGEST_REST, _FIRST_REST * 2.0**turns) - seconds_since(pin.at, now)


def _allocatable(node: Obj | None) -> Obj:
    return ((node or {}).get("status") or {}).get("allocatable") or {}
