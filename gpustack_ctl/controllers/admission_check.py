"""The admission check: gate 3, card by card.

Kueue has reserved quota and topology-aware scheduling has chosen the nodes, both from sums over a node. Here the cards
themselves are looked at, and the Workload is told Ready, with a plan of which Pod takes which card, or Retry, with the
nearest miss. One Workload is judged at a time, and what was just answered is in the cache before the next is judged.

A Retry takes the quota back at once and parks the Workload in a pin that no node matches; `parking` lets it go when
there is room. Where it queues for no pool of ours, or while pins are out of use, a held Workload keeps its reservation
for the 30 s that its Retry asks for; Kueue 0.19 then evicts it, places it anew within 0.1 s and it is judged again. It
need not come to that: when a ledger, a Node, a Pod or another Workload that it depends on changes, it is judged at
once, and a Ready replaces the Retry. Kueue would still sit out the delay, which it noted in
`status.requeueState.requeueAt`; with that field removed in the same patch it admits the Workload in under 0.1 s.

Owns our entry in `status.admissionChecks` of every Workload that lists it, the removal of the delay that an earlier
Retry of ours asked for, and the parking of a Workload in its pin.

Woken by Workloads that await a verdict, and, for those on hold, by Devices, Nodes, Pods, flavors, instance types and
the end of other Workloads on their nodes; by priority, then age.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter

import structlog

from gpustack_ctl.accel.feasibility import Demand, Miss, Plan, fit
from gpustack_ctl.accel.pins import park
from gpustack_ctl.controllers import metrics
from gpustack_ctl.controllers.demands import UnclearError, nodes_of_flavor
from gpustack_ctl.controllers.fleet import Fleet
from gpustack_ctl.controllers.pins import Pins, is_active, landed, pin_of, urgency
from gpustack_ctl.controllers.sources import Sources, claim_changed, labels_changed, spec_changed
from gpustack_ctl.controllers.verdicts import FOUND, HELD, Verdict, is_news, undelay_patch, verdict_patch
from gpustack_ctl.controllers.workloads import (
    awaits_verdict,
    check_state,
    holds_accelerators,
    nodes_of,
    roles_of,
    waits_for_requeue,
)
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, changes
from gpustack_ctl.kube.events import Events
from gpustack_ctl.kube.objects import Obj, deleting, is_true, key_of, name_of, namespace_of
from gpustack_ctl.kube.resources import WORKLOADS
from gpustack_ctl.kube.times import now, seconds_since

log = structlog.get_logger()

MANAGER = "gpustack-admission-check"
FORGOTTEN_AFTER_SECONDS = 60.0
"""How long after its last hold a Workload's rounds are counted from one again."""

ANYWHERE = "*"
"""Stands for the node of a Workload that was assigned none by name."""


class AdmissionCheck(Controller):
    """Keys are `namespace/name` of Workloads."""

    name = "admission-check"
    workers = 1  # a verdict must see the one before it

    def __init__(self, *, kube: Kube, sources: Sources, fleet: Fleet, pins: Pins, events: Events) -> None:
        self._kube = kube
        self._pins = pins
        self._sources = sources
        self._fleet = fleet
        self._events = events
        sources.workloads.add_index("on hold", _on_hold)
        sources.workloads.add_index("kept for", _kept_for)

    def wakes(self) -> Iterable[Wake]:
        yield Wake(self._sources.workloads, self._woken_by_workload)
        yield changes(self._sources.devices, key=lambda devices: self._held_on(name_of(devices)))
        yield changes(self._sources.nodes, key=lambda node: self._held_on(name_of(node)), when=labels_changed)
        yield changes(self._sources.pods, key=self._held_under, when=claim_changed)
        yield changes(self._sources.flavors, key=self._all_held, when=spec_changed)
        yield changes(self._sources.instance_types, key=self._all_held, when=spec_changed)

    async def reconcile(self, key: str) -> Result:
        workload = self._sources.workloads.get(key)
        if workload is None:
            return DONE
        if waits_for_requeue(workload):
            await self._write(workload, undelay_patch(workload))
            return DONE
        if not _awaits(workload):
            return DONE
        started = perf_counter()
        verdict = await self._judge(workload)
        metrics.verdict_seconds.labels(verdict.state).observe(perf_counter() - started)
        if verdict.state == "Retry" and self._pins.on and self._pins.pool(workload) is not None:
            await self._park(workload, verdict)
        elif is_news(workload, verdict):
            await self._write(workload, verdict_patch(workload, verdict, now=now()))
            self._tell(workload, verdict)
        return DONE

    async def _park(self, workload: Obj, verdict: Verdict) -> None:
        """Have the quota taken back now, and the Workload wait where no node is until one fits."""
        said, pin = check_state(workload) or {}, pin_of(workload)
        if said.get("state") == "Retry" and "requeueAfterSeconds" not in said:
            return  # it is on its way
        lost = pin is not None and not landed(workload)
        if pin is not None and seconds_since(pin.at, datetime.now(UTC)) > FORGOTTEN_AFTER_SECONDS:
            pin = replace(pin, rounds=0, lost=0)
        parked = park(pin, why=verdict.message, at=now(), lost=lost)
        if lost:
            metrics.pins_lost.inc()
            await self._pins.write(workload, replace(parked, toggled=True), active=False)
        else:
            await self._write(workload, verdict_patch(workload, verdict, now=now(), delay=None))
            await self._pins.annotate(workload, parked)
        self._tell(workload, verdict)

    async def _judge(self, workload: Obj) -> Verdict:
        """Facts from the caches and one read of the nodes' Pods; then a pure decision."""
        try:
            demands = self._demands(workload)
        except UnclearError as unclear:
            return Verdict("Retry", str(unclear))
        if not demands:
            return Verdict("Ready", "the Workload asks for no accelerator")
        if keeper := self._keeper(workload):
            return Verdict("Retry", f"its node is kept for {key_of(keeper)}, which has waited longer")
        cards = await self._fleet.cards(self._candidates(workload, demands), judged=key_of(workload))
        found = fit(demands, cards)
        if isinstance(found, Miss) and found.bounded:
            metrics.searches_bounded.inc()
        if isinstance(found, Plan):
            return Verdict("Ready", "every Pod has its accelerators", found.annotations())
        return Verdict("Retry", found.message)

    def _demands(self, workload: Obj) -> tuple[Demand, ...]:
        for role in roles_of(workload):
            if role.unplaced:
                raise UnclearError(f'role "{role.name}": {role.unplaced} of {role.pods} Pods have no node yet')
        return self._fleet.demands(workload)

    def _candidates(self, workload: Obj, demands: Iterable[Demand]) -> set[str]:
        """The assigned nodes; where none was assigned by name, every node of the flavor."""
        nodes = {demand.node for demand in demands if demand.node is not None}
        for role in roles_of(workload):
            flavors = (self._sources.flavors.get(name) for name in role.flavors if role.nodes is None)
            for flavor in flavors:
                nodes.update(nodes_of_flavor(flavor, self._sources.nodes.list()) if flavor is not None else ())
        return nodes

    def _keeper(self, workload: Obj) -> Obj | None:
        """The Workload for which one of these nodes is kept, and which comes before this one."""
        kept_for = (each for node in nodes_of(workload) for each in self._sources.workloads.by_index("kept for", node))
        return next((each for each in kept_for if urgency(each) < urgency(workload)), None)

    async def _write(self, workload: Obj, patch: Obj) -> None:
        patched = await self._kube.patch(
            WORKLOADS,
            name_of(workload),
            patch,
            namespace=namespace_of(workload),
            subresource="status",
            field_manager=MANAGER,
        )
        self._sources.workloads.observe(patched)

    def _tell(self, workload: Obj, verdict: Verdict) -> None:
        nodes = sorted(nodes_of(workload))
        log.info("verdict", workload=key_of(workload), state=verdict.state, message=verdict.message, nodes=nodes)
        if verdict.state == "Retry":
            self._events.emit(workload, type="Warning", reason=HELD, action="Hold", message=verdict.message)
        elif (check_state(workload) or {}).get("state") == "Retry":
            self._events.emit(workload, reason=FOUND, action="Release", message=verdict.message)

    def _woken_by_workload(self, old: Obj | None, new: Obj | None) -> list[str]:
        """The Workload itself while it awaits something of us; and those on hold on nodes that it lets go."""
        woken = [key_of(new)] if new is not None and (_awaits(new) or waits_for_requeue(new)) else []
        if old is not None and holds_accelerators(old) and not (new is not None and holds_accelerators(new)):
            woken += self._held_on(*nodes_of(old))
        return woken

    def _held_under(self, pod: Obj) -> list[str]:
        node = pod["spec"].get("nodeName")
        return self._held_on(node) if node else []

    def _held_on(self, *nodes: str) -> list[str]:
        """The Workloads on hold that these nodes concern, those of high priority first, and then the oldest."""
        held = {key_of(each): each for node in (*nodes, ANYWHERE) for each in self._on_hold(node)}
        return sorted(held, key=lambda key: urgency(held[key]))

    def _all_held(self, _: Obj) -> list[str]:
        held = [each for each in self._sources.workloads.list() if _awaits(each)]
        return [key_of(each) for each in sorted(held, key=urgency)]

    def _on_hold(self, node: str) -> list[Obj]:
        return self._sources.workloads.by_index("on hold", node)


def _awaits(workload: Obj) -> bool:
    """Whether the Workload waits for a Ready of ours."""
    return awaits_verdict(workload) and is_active(workload) and (check_state(workload) or {}).get("state") != "Ready"


def _kept_for(workload: Obj) -> Iterable[str]:
    """The nodes that are kept for a Workload until it has its accelerators."""
    if holds_accelerators(workload) or is_true(workload, "Finished") or deleting(workload) or not is_active(workload):
        return ()
    pin = pin_of(workload)
    return pin.reserved if pin is not None else ()


def _on_hold(workload: Obj) -> Iterable[str]:
    """The nodes that a Workload on hold waits for."""
    if not _awaits(workload):
        return ()
    return {*nodes_of(workload), *(ANYWHERE for role in roles_of(workload) if role.nodes is None)}
