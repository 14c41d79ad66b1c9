"""What gate 3 would say of a Workload now, with the gate's own functions over the gate's own facts.

A Workload that holds a reservation is judged on the nodes that it was assigned, as the check judges it. One that holds
none may still go anywhere: then every flavor of its queue is tried, each with the cards per node that it pins.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpustack_ctl.accel.cards import NodeCards
from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.feasibility import Demand, Miss, Plan, fit
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.requests import read_pod
from gpustack_ctl.controllers.demands import UnclearError, demands_of, nodes_of_flavor, pinned
from gpustack_ctl.controllers.fleet import Fleet
from gpustack_ctl.controllers.pins import pin_of
from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.controllers.workloads import roles_of
from gpustack_ctl.explain.answers import named
from gpustack_ctl.explain.check import Outlook, described
from gpustack_ctl.explain.credits import Place
from gpustack_ctl.explain.remedies import hopeless, remedies
from gpustack_ctl.kube.objects import Obj, is_true, key_of, name_of

Nodes = Mapping[str, NodeCards]

_TURN = "nothing of the cards, they have room now: Workloads are let go by priority, then age"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a Workload is judged against."""

    sources: Sources
    fleet: Fleet
    table: Manufacturers


def outlook(workload: Obj, place: Place, around: Surroundings) -> Outlook | None:
    """What gate 3 would say now; None for a Workload that asks for no accelerator."""
    if not any(_asks(workload, place.pool, around.table)):
        return None
    flavors = [flavor for name in _flavors(place.queue) if (flavor := around.sources.flavors.get(name))]
    pool_nodes = {node for flavor in flavors for node in nodes_of_flavor(flavor, around.sources.nodes.list())}
    try:
        placed = _placed(workload, place.pool, around)
    except UnclearError as unclear:
        return Outlook(False, str(unclear), change="what the message says to be put right")
    assigned = {demand.node for demand in placed if demand.node is not None}
    nodes = [node for name in sorted(pool_nodes | assigned) if (node := around.sources.nodes.get(name))]
    cards = {name_of(node): around.fleet.glance(node) for node in nodes}
    anywhere = [*_anywhere(workload, place.pool, flavors, around.table)]
    kept = [*_kept(workload, cards, around.sources)]
    if assigned:
        found = _on_assigned(placed, {node: cards[node] for node in assigned & cards.keys()}, anywhere, cards)
    else:
        found = _on_any(anywhere, cards)
    return replace(found, saw="; ".join([found.saw, *kept]))


def _placed(workload: Obj, pool: Pool | None, around: Surroundings) -> tuple[Demand, ...]:
    """The demands on the nodes that a reservation assigned; none without one. Raises UnclearError."""
    if not is_true(workload, "QuotaReserved"):
        return ()
    return demands_of(workload, pool=pool, flavor_of=around.sources.flavors.get, table=around.table)


def _on_assigned(
    demands: Sequence[Demand], nodes: Mapping[str, NodeCards], anywhere: Iterable[Sequence[Demand]], pool: Nodes
) -> Outlook:
    found = fit(demands, nodes)
    saw = described(nodes, {demand.akey for demand in demands})
    if isinstance(found, Plan):
        return Outlook(True, "every Pod has its accelerators", saw, "nothing: the cards have room now")
    ways = remedies(demands, nodes) or [hopeless(nodes)]
    if elsewhere := _nodes_with_room(anywhere, {node: pool[node] for node in pool.keys() - nodes.keys()}):
        ways.append(f"Kueue to place it on {named(elsewhere)}, where there is room now")
    return Outlook(False, found.message, saw, "; or ".join(ways))


def _on_any(anywhere: Sequence[Sequence[Demand]], pool: Nodes) -> Outlook:
    saw = described(_roomiest(pool), {demand.akey for demands in anywhere for demand in demands})
    if room := _nodes_with_room(anywhere, pool):
        return Outlook(True, f"there is room on {named(room)}", saw, _TURN)
    missed = [(demands, found) for demands in anywhere if isinstance(found := fit(demands, pool), Miss)]
    if not missed:
        return Outlook(False, "the queue has no flavor with such accelerators", saw, "a node with such accelerators")
    for demands, found in missed:
        if ways := remedies(demands, _pinned(demands, pool)):
            return Outlook(False, found.message, saw, "; or ".join(ways))
    return Outlook(False, missed[-1][1].message, saw, hopeless(pool))


def _kept(workload: Obj, nodes: Nodes, sources: Sources) -> Iterator[str]:
    """The nodes that are kept for somebody who has waited too long: for this Workload, or from it."""
    for other in sources.workloads.list():
        pin = pin_of(other)
        if pin is not None and (mine := [node for node in pin.reserved if node in nodes]):
            whom = "this Workload" if key_of(other) == key_of(workload) else f"Workload {key_of(other)}"
            yield f"{named(mine)} kept for {whom}, which waits since {pin.since}"


def _nodes_with_room(anywhere: Iterable[Sequence[Demand]], nodes: Nodes) -> list[str]:
    """The nodes of the first flavor that serves everything, where the packing order puts the Pods."""
    for demands in anywhere:
        found = fit(demands, nodes)
        if isinstance(found, Plan):
            return list(dict.fromkeys(placed.node for placed in found.pods))
    return []


def _roomiest(nodes: Nodes) -> Nodes:
    """The nodes with most left first: of many, those are the ones worth showing."""
    return dict(sorted(nodes.items(), key=lambda item: -sum(state.remaining for state in item[1].states)))


def _pinned(demands: Iterable[Demand], nodes: Nodes) -> Nodes:
    """The nodes that have the number of cards that the flavor pins."""
    wanted = {(demand.akey, demand.card_count) for demand in demands}
    return {
        node: cards
        for node, cards in nodes.items()
        if any(count is None or cards.counts.get(akey) == count for akey, count in wanted)
    }


def _anywhere(
    workload: Obj, pool: Pool | None, flavors: Iterable[Obj], table: Manufacturers
) -> Iterator[tuple[Demand, ...]]:
    """The Workload's demands without a node, once for each flavor: what it pins is what they are held to."""
    asked = [*_asks(workload, pool, table)]
    for flavor in flavors:
        try:
            akey, count = pinned(flavor)
        except UnclearError:
            continue  # a flavor of processors serves no accelerator
        yield tuple(replace(demand, akey=akey, card_count=count) for demand in asked)


def _asks(workload: Obj, pool: Pool | None, table: Manufacturers) -> Iterator[Demand]:
    """Every PodSet that asks for accelerators, as a demand for the pool's."""
    counts = {role.name: role.pods for role in roles_of(workload)}
    for pod_set in workload["spec"].get("podSets") or ():
        name = pod_set.get("name", "main")
        pod = read_pod((pod_set.get("template") or {}).get("spec") or {}, table=table, pool=pool)
        if not pod.none:
            akey = (pool.akey if pool else None) or ""
            yield Demand(role=name, pod=pod, pods=counts.get(name, pod_set.get("count") or 1), akey=akey)


def _flavors(queue: Obj | None) -> list[str]:
    groups = ((queue or {}).get("spec") or {}).get("resourceGroups") or ()
    return [flavor["name"] for group in groups for flavor in group["flavors"]]
