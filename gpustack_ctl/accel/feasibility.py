"""The verdict of the per-card admission check: place every demand at once, or say what was nearest.

A Workload is told Ready when some assignment gives every Pod of every PodSet its cards, and held when none does.
Packing Pod by Pod answers most questions; where it fails, the exact search decides. The budget is the whole Workload's:
two roles on one model never spend a card twice, as all claims on a node's cards of one model are packed together.

A demand names its node, since Kueue's topology assignment does. Then nodes are independent and each is packed for
itself. A demand without a node may go anywhere among the nodes given, a Pod to a node, and is searched over nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpustack_ctl.accel.cards import NodeCards, PodKey
from gpustack_ctl.accel.families import Family
from gpustack_ctl.accel.placement import Choice, choose, with_choices
from gpustack_ctl.accel.plans import format_plan
from gpustack_ctl.accel.refusals import Cause, Refusal, room, shortfall
from gpustack_ctl.accel.requests import ContainerDemand, PodDemand
from gpustack_ctl.accel.search import Budget, Exhausted, pack
from gpustack_ctl.accel.spreading import spread

SEARCH_BOUND = 50_000
"""Search nodes after which the exact search gives up and the Workload is held."""

UNREADABLE_COUNT = -1
"""A `card_count` for a flavor whose pinned count cannot be read: it matches no node."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods of one PodSet that want the same: `pods` of them on `node`, or anywhere among the nodes given.

    `akey` is the model that the PodSet's flavor pins and `card_count` the number of such cards per node that it
    pins, None where it pins none; `role` is the PodSet's name.
    """

    role: str
    pod: PodDemand
    pods: int
    akey: str
    node: str | None = None
    card_count: int | None = None


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """Where one Pod of a role goes."""

    role: str
    node: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A card for every Pod of every demand; `searched` is 0 where the packing order alone found it."""

    pods: tuple[PlacedPod, ...]
    searched: int = 0

    def annotations(self) -> dict[str, str]:
        """The plan annotation of each role; a role whose plan is too long has none."""
        roles: dict[str, dict[str, list[tuple[Choice, ...]]]] = {}
        for placed in self.pods:
            roles.setdefault(placed.role, {}).setdefault(placed.node, []).append(placed.choices)
        written = {role: format_plan(nodes) for role, nodes in roles.items()}
        return {role: text for role, text in written.items() if text is not None}


@dataclass(frozen=True, slots=True)
class Miss:
    """No placement exists; or none was found within the bound, which `bounded` says."""

    role: str
    node: str | None
    cause: Cause
    message: str
    bounded: bool = False
    searched: int = 0


def fit(demands: Sequence[Demand], nodes: Mapping[str, NodeCards], *, bound: int = SEARCH_BOUND) -> Plan | Miss:
    """Place every demand at once, or say what was nearest.

    `nodes` holds every node whose Node object exists; one that is missing serves nothing. Exact: a Miss that is not
    `bounded` means that no placement exists, a Plan always is one. Costs one packing of each node in the usual case;
    for the worst, see `search`.
    """
    pods: list[_Pod] = []
    for demand in demands:
        able = _eligible(demand, nodes)
        if isinstance(able, Refusal):
            return _miss(demand, demands, demand.node, able)
        if refusal := _too_little(demand, able):
            return _miss(demand, demands, demand.node, refusal)
        if demand.pod.containers:
            pods += [_Pod(demand, tuple(able))] * demand.pods
    packed = _in_packing_order(pods, nodes)
    if not isinstance(packed, _Stuck):
        return Plan(packed)
    budget = Budget(bound)
    try:
        exact = _exactly(pods, nodes, budget)
    except Exhausted:
        near = _stuck_miss(packed, demands)
        unproven = f"{near.message}; not every other placement was tried"
        return replace(near, message=unproven, bounded=True, searched=budget.spent)
    if exact is None:
        return replace(_stuck_miss(packed, demands), searched=budget.spent)
    return Plan(exact, budget.spent)


@dataclass(frozen=True, slots=True, eq=False)
class _Pod:
    """One Pod to place, and the nodes it may go to."""

    demand: Demand
    nodes: tuple[NodeCards, ...]


@dataclass(frozen=True, slots=True)
class _Stuck:
    """Where the packing order got stuck: the claim, and a node's cards as they were then."""

    demand: Demand
    claim: ContainerDemand
    cards: NodeCards

    @property
    def left(self) -> int:
        """Units left on the node: how near it came."""
        return sum(state.remaining for state in self.cards.of(self.demand.akey))


def _eligible(demand: Demand, nodes: Mapping[str, NodeCards]) -> list[NodeCards] | Refusal:
    """The nodes that may serve the demand; for a named node, why it may not."""
    if demand.pod.errors:
        return Refusal(Cause.UNREADABLE, f"asks for what cannot be read: {demand.pod.errors[0]}")
    if demand.node is None:
        able = [cards for cards in nodes.values() if cards.of(demand.akey) and _pinned(demand, cards)]
        return able or Refusal(
            Cause.NO_LEDGER, f"no node offers {demand.akey} accelerators as the flavor describes them"
        )
    cards = nodes.get(demand.node)
    if cards is None:
        return Refusal(Cause.NO_NODE, "is gone")
    if not _pinned(demand, cards):
        count = cards.counts.get(demand.akey, "no readable number of")
        wanted = "a number that cannot be read" if demand.card_count == UNREADABLE_COUNT else demand.card_count
        return Refusal(Cause.NOT_PINNED, f"has {count} {demand.akey} accelerators, its flavor pins {wanted}")
    return [cards]


def _pinned(demand: Demand, cards: NodeCards) -> bool:
    return demand.card_count is None or cards.counts.get(demand.akey) == demand.card_count


def _too_little(demand: Demand, eligible: Sequence[NodeCards]) -> Refusal | None:
    """Refuse by counting what would not fit even alone; this also bounds how many Pods are placed one by one."""
    for claim in demand.pod.containers:
        rooms = {cards.node: room(claim, cards.of(demand.akey)) for cards in eligible}
        if sum(rooms.values()) < demand.pods:
            nearest = max(eligible, key=lambda cards: rooms[cards.node])
            refusal = shortfall(claim, nearest.of(demand.akey), akey=demand.akey, pods=demand.pods)
            if demand.node is not None:
                return refusal
            named = f"the nearest of {len(eligible)} nodes, {nearest.node}," if eligible[1:] else f"node {nearest.node}"
            return Refusal(refusal.cause, f"{named} {refusal.message}")
    return None


def _in_packing_order(pods: Sequence[_Pod], nodes: Mapping[str, NodeCards]) -> tuple[PlacedPod, ...] | _Stuck:
    """Each Pod where the allocator would put it, the largest first."""
    cards = dict(nodes)
    placed: dict[int, PlacedPod] = {}
    for at in sorted(range(len(pods)), key=lambda at: _size(pods[at].demand.pod)):
        demand = pods[at].demand
        stuck: list[_Stuck] = []
        for node in pods[at].nodes:
            taken = _place_pod(demand, cards[node.node], PodKey("", demand.role, f"{at}"))
            if isinstance(taken, _Stuck):
                stuck.append(taken)
                continue
            choices, cards[node.node] = taken
            placed[at] = PlacedPod(demand.role, node.node, choices)
            break
        else:
            return max(stuck, key=lambda each: each.left)
    return tuple(placed[at] for at in range(len(pods)))


def _place_pod(demand: Demand, cards: NodeCards, key: PodKey) -> tuple[tuple[Choice, ...], NodeCards] | _Stuck:
    """One Pod's containers on a node, one after another in packing order, and the node afterwards."""
    choices: tuple[Choice, ...] = ()
    for claim in demand.pod.containers:
        chosen = choose(claim, cards, akey=demand.akey)
        if isinstance(chosen, Refusal):
            return _Stuck(demand, claim, cards)
        choices += chosen
        cards = with_choices(cards, key, chosen)
    return choices, cards


def _size(pod: PodDemand) -> tuple[tuple[int, int, int], ...]:
    """Sorts Pods the hardest to place first: whole cards, then shares on many, then large slices and partitions."""
    order = (Family.EXCLUSIVE, Family.SHARED, Family.SLICED, Family.PARTITIONED)
    return tuple(sorted((order.index(claim.family), -claim.cards, -claim.units) for claim in pod.containers))


def _exactly(pods: Sequence[_Pod], nodes: Mapping[str, NodeCards], budget: Budget) -> tuple[PlacedPod, ...] | None:
    """A placement of all Pods, or None when there is none. Raises Exhausted."""
    where = spread(
        [(pod.demand.akey, pod.demand.pod.containers, [node.node for node in pod.nodes]) for pod in pods], nodes, budget
    )
    if where is None:
        return None
    choices: list[list[Choice]] = [[] for _ in pods]
    groups: dict[tuple[str, str], list[tuple[int, ContainerDemand]]] = {}
    for at, pod in enumerate(pods):
        for claim in pod.demand.pod.containers:
            groups.setdefault((where[at], pod.demand.akey), []).append((at, claim))
    for (node, akey), claims in groups.items():
        packed = pack(nodes[node].of(akey), [claim for _, claim in claims], budget)
        if packed is None:
            return None
        for (at, _), chosen in zip(claims, packed, strict=True):
            choices[at] += chosen
    return tuple(PlacedPod(pod.demand.role, where[at], tuple(choices[at])) for at, pod in enumerate(pods))


def _stuck_miss(stuck: _Stuck, demands: Sequence[Demand]) -> Miss:
    refusal = shortfall(stuck.claim, stuck.cards.of(stuck.demand.akey), akey=stuck.demand.akey)
    placed = Refusal(refusal.cause, f"{refusal.message} with the rest of this Workload in place")
    return _miss(stuck.demand, demands, stuck.cards.node, placed)


def _miss(demand: Demand, demands: Sequence[Demand], node: str | None, refusal: Refusal) -> Miss:
    """The miss with its message: the role where there are several, the node where there is one."""
    role = f'role "{demand.role}": ' if len({other.role for other in demands}) > 1 else ""
    where = f"node {node} " if node else ""
    return Miss(demand.role, node, refusal.cause, f"{role}{where}{refusal.message}")
