"""Gate 5: a container gets its cards, in the kubelet's call.

One lock per node covers the decision: whose turn it is, whether the cards can be had, and the promise. The promise is
on this node's disk before the kubelet hears of it, so a kill between any two steps loses nothing: the kubelet asks
again, the container's promise is found, and the answer is made anew. What follows (the Pod's record, the published
ledger) is brought up to the promise by others, for as long as it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from gpustack_ctl.accel.ledger import pod_key
from gpustack_ctl.agent import metrics
from gpustack_ctl.agent.decisions import Decision, decide
from gpustack_ctl.agent.fault_points import reach
from gpustack_ctl.agent.journal import JournalError
from gpustack_ctl.agent.node_lock import NodeLock
from gpustack_ctl.agent.partitions import PartitionError, Partitions
from gpustack_ctl.agent.reservations import Promise, PromiseKey, Reservations
from gpustack_ctl.agent.responders.responder import Grant, Responder, Response, ResponseRefused
from gpustack_ctl.agent.tokens import PluginResource
from gpustack_ctl.agent.turns import AllocationRefused, Turn, Turns
from gpustack_ctl.kube.events import Events
from gpustack_ctl.kube.objects import Obj

log = structlog.get_logger()


class Allocator:
    """Answers every Allocate call of this node's device plugins."""

    def __init__(
        self,
        turns: Turns,
        *,
        reservations: Reservations,
        partitions: Partitions,
        responders: Mapping[str, Responder],
        events: Events,
        node: Obj,
        lock: NodeLock,
        slice_gate: bool = True,
    ) -> None:
        """`responders` are by manufacturer; `node` is what the Node's events are about; `lock` is the node's."""
        self._turns = turns
        self._reservations = reservations
        self._partitions = partitions
        self._responders = responders
        self._events = events
        self._node = node
        self._lock = lock
        self._slice_gate = slice_gate

    async def allocate(self, resource: PluginResource, device_ids: Sequence[str]) -> Response:
        """Give the waiting container these devices. Raises AllocationRefused, and nothing has then changed."""
        try:
            turn, decision = await self._settle(resource, device_ids)
            return await self._respond(turn, decision)
        except AllocationRefused as refusal:
            self._tell(resource, refusal)
            raise

    async def _settle(self, resource: PluginResource, device_ids: Sequence[str]) -> tuple[Turn, Decision]:
        """Decide, and promise what was decided."""
        async with self._lock.held():
            turn = await self._turns.take(
                resource, count=len(device_ids), could=lambda turn: self._could(turn, device_ids)
            )
            decision = self._decide(turn, device_ids)
            reach("after-decision")
            promise = Promise(
                pod=pod_key(turn.claim.pod),
                container=turn.claim.container,
                resource=resource.name,
                tokens=tuple(device_ids),
                entries=decision.charged,
            )
            try:
                self._reservations.add(promise)
            except JournalError as error:
                raise AllocationRefused(f"{turn.claim}: {error}", pod=turn.claim.pod) from error
        reach("after-journal")
        log.info(
            "devices promised",
            pod=str(promise.pod),
            uid=promise.pod.uid,
            container=promise.container,
            resource=resource.name,
            cards=[entry.id for entry in decision.entries],
        )
        return turn, decision

    def _decide(self, turn: Turn, device_ids: Sequence[str]) -> Decision:
        before = self._reservations.get(_key(turn))
        promised = before.entries if before else ()
        return decide(turn, self._turns, device_ids, promised=promised, slice_gate=self._slice_gate)

    def _could(self, turn: Turn, device_ids: Sequence[str]) -> bool:
        self._decide(turn, device_ids)
        return True

    async def _respond(self, turn: Turn, decision: Decision) -> Response:
        """What the container is given for its cards; a failure gives the promise back."""
        try:
            await self._reservations.flush()
            reach("after-flush")
            grant = await self._grant(turn, decision)
            return await self._responders[turn.resource.manufacturer.key].respond(grant)
        except (ResponseRefused, PartitionError, JournalError) as error:
            await self._give_back(_key(turn))
            raise AllocationRefused(f"{turn.claim}: {error}", pod=turn.claim.pod) from error

    async def _give_back(self, key: PromiseKey) -> None:
        try:
            async with self._lock.held():
                await self._reservations.drop([key])
        except JournalError as error:
            # Still promised then, and charged: room lost until the Pod is gone is better than room given twice.
            log.warning("promise could not be given back", uid=key.uid, container=key.container, error=str(error))

    async def _grant(self, turn: Turn, decision: Decision) -> Grant:
        pod = pod_key(turn.claim.pod)
        cards = [state.card for entry in decision.entries if (state := turn.cards.get(entry.id))]
        instances: tuple[str, ...] = ()
        if any(entry.profile for entry in decision.entries):
            if decision.charged:
                instances = await self._partitions.create(pod, decision.owner, decision.charged)
                reach("after-instances")
            else:
                instances = await self._partitions.existing(pod.uid, decision.owner)
        if not cards or (decision.entries[0].profile and not instances):
            raise ResponseRefused("the accelerators of its neighbour are not on this node any more")
        return Grant(
            pod=pod,
            container=turn.claim.spec,
            demand=decision.demand,
            cards=cards,
            model=self._turns.model(cards[0].akey),
            instances=instances,
        )

    def _tell(self, resource: PluginResource, refusal: AllocationRefused) -> None:
        """Say it where people look: the kubelet puts the message on the Pod, but a recreated Pod takes it along."""
        metrics.refusals.labels(resource.name).inc()
        log.warning("allocation refused", resource=resource.name, reason=str(refusal))
        subjects = [self._node] if refusal.pod is None else [self._node, _reference(refusal.pod)]
        for subject in subjects:
            self._events.emit(
                subject, type="Warning", reason="AllocationRefused", action="Allocating", message=str(refusal)
            )


def _key(turn: Turn) -> PromiseKey:
    return PromiseKey(turn.claim.uid, turn.claim.container, turn.resource.name)


def _reference(pod: Obj) -> Obj:
    """The Pod as an event names it; objects from a list do not say their own kind."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
