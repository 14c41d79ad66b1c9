"""One call of the kubelet, understood: whose turn it is, what that container asks for and what it may see.

The hint and the allocation both begin here, so that they mean the same container and the same cards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpustack_ctl.accel.cards import NodeCards
from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.labels import accelerator
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.records import Record, readable_record
from gpustack_ctl.accel.requests import ContainerDemand, read_pod
from gpustack_ctl.agent.identify import Claim, Identifier
from gpustack_ctl.agent.inventory import DetectedModel
from gpustack_ctl.agent.node_ledger import NodeLedger
from gpustack_ctl.agent.planned import Hints, hints_for
from gpustack_ctl.agent.reservations import Reservations
from gpustack_ctl.agent.tokens import PluginResource
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, uid_of


class AllocationRefused(Exception):  # noqa: N818 - a verdict, not an error of ours
    """The container does not get its devices; the text reaches the Pod's status by way of the kubelet.

    `pod` is the Pod it is about, where that is known.
    """

    def __init__(self, message: str, *, pod: Obj | None = None) -> None:
        super().__init__(message)
        self.pod = pod


@dataclass(frozen=True, slots=True)
class Turn:
    """A container at the counter. `cards` is the node without what the container itself holds."""

    resource: PluginResource
    claim: Claim
    cards: NodeCards
    table: Manufacturers

    def demand(self, model: DetectedModel) -> ContainerDemand:
        """What the container asks of a card of that model. Raises AllocationRefused where that cannot be read."""
        return demand_of(self.claim, self.resource, model, self.table)


def demand_of(claim: Claim, resource: PluginResource, model: DetectedModel, table: Manufacturers) -> ContainerDemand:
    """What a container asks by a resource name; MiB and profiles fold by the model's own memory, not by a pool's word.

    Raises AllocationRefused where that cannot be read.
    """
    pool = Pool(
        name="",
        akey=model.akey,
        manufacturer=model.manufacturer,
        memory_mib=model.memory_mib,
        profiles={profile.name: profile.memory_mib for card in model.cards for profile in card.profiles},
    )
    asked = read_pod(claim.pod.get("spec") or {}, table=table, pool=pool)
    for demand in asked.containers:
        mine = demand.family is resource.family and demand.manufacturer == resource.manufacturer.key
        if mine and demand.container == claim.container:
            return demand
    faults = "; ".join(map(str, asked.errors)) or f"it does not ask for {resource.name}"
    raise AllocationRefused(f"{claim}: {faults}", pod=claim.pod)


class Turns:
    """Finds out whose turn it is. The caller holds the node's lock from here until its promise is kept."""

    def __init__(
        self,
        *,
        ledger: NodeLedger,
        identifier: Identifier,
        pods: Informer,
        reservations: Reservations,
        table: Manufacturers,
    ) -> None:
        self._ledger = ledger
        self._identifier = identifier
        self._pods = pods
        self._reservations = reservations
        self._table = table

    async def take(self, resource: PluginResource, *, count: int, could: Callable[[Turn], bool]) -> Turn:
        """The turn of a call for `count` tokens. Raises AllocationRefused when no container asks for them.

        `could` says whether a container could be served by this call; it only guides a guess.
        """

        def serves(claim: Claim) -> bool:
            try:
                return could(self._of(resource, claim))
            except AllocationRefused:
                return False

        claim = await self._identifier.identify(resource.name, count=count, serves=serves)
        if claim is None:
            raise AllocationRefused(f"no container on this node waits for {count} of {resource.name}")
        return self._of(resource, claim)

    def models(self, turn: Turn) -> list[DetectedModel]:
        """The models that can serve the turn: of the resource's population, and the pinned one where one is pinned."""
        return [
            model
            for model in self._ledger.inventory.models
            if model.manufacturer == turn.resource.manufacturer.key
            and any(turn.resource.serves(card) for card in self._ledger.detected if card.akey == model.akey)
            and _may_use(turn.claim.pod, model)
        ]

    def model(self, akey: str) -> DetectedModel:
        return next(model for model in self._ledger.inventory.models if model.akey == akey)

    def hints(self, turn: Turn) -> Hints:
        """What the admission check planned for this container and for its neighbours."""
        return hints_for(
            turn.claim.pod,
            turn.claim.container,
            node=self._ledger.node_name,
            pods=self._pods.list(),
            record=self.record,
        )

    def record(self, pod: Obj) -> Record:
        """What the Pod holds: what it was promised here, else what is written on it."""
        return self._reservations.record(uid_of(pod)) or readable_record(pod)

    def _of(self, resource: PluginResource, claim: Claim) -> Turn:
        return Turn(resource, claim, self._ledger.cards_for(claim.pod, claim.container), self._table)


def _may_use(pod: Obj, model: DetectedModel) -> bool:
    """Whether the Pod's node selector, where Kueue pins the flavor, names this model or none at all."""
    selector = (pod.get("spec") or {}).get("nodeSelector") or {}
    pinned = [key for key, value in selector.items() if key.startswith(_IDENTITY_PREFIX) and value == "true"]
    return not pinned or accelerator(model.akey) in pinned


_IDENTITY_PREFIX = accelerator("")
