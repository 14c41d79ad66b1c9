"""Gates 2 and 3 for one Workload: who grants it credits, which nodes Kueue chooses, and whether their cards agree.

Kueue counts a node's keys and takes the node with the least free capacity that fits (its algorithm for Pods that ask
for no topology); where no node takes a whole PodSet it splits it over nodes in that order. Gate 3 judges the nodes card
by card and, instead of letting Kueue come back to a node that has no room, pins the Workload to those that have. So a
Workload ends on the first node in Kueue's order on which every card agrees, or is held with what the first choice was
lacking.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from gpustack_ctl.accel.cards import Card
from gpustack_ctl.simulate.fleet import Answer, Kind, Load, NodeState
from gpustack_ctl.simulate.index import Index
from gpustack_ctl.simulate.quota import Flavor, Quota
from gpustack_ctl.simulate.requests import Need, Request, Role
from gpustack_ctl.simulate.scenario import NodesEntry


@dataclass(slots=True, eq=False)
class Node:
    """One node; `rank` is its place among the fleet's names, `counts` what it counts free by its flavors' questions."""

    name: str
    rank: int
    kind: Kind
    state: NodeState
    flavors: tuple[Flavor, ...] = ()
    counts: dict[Flavor, tuple[int, ...]] = field(default_factory=dict)
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """A Workload's place: what it takes on which node, and the credits it reserves of which flavor."""

    taken: tuple[tuple[Node, Answer], ...]
    credits: tuple[tuple[Flavor, int], ...]


@dataclass(frozen=True, slots=True)
class Waits:
    """Why a Workload is not admitted: at gate 2, by credits or by the nodes' totals, or at gate 3.

    ``credits`` says that they would be granted: then cards keep it waiting, and not the quota.
    """

    gate: int
    told: str | Callable[[], str]
    credits: bool = True

    @property
    def message(self) -> str:
        """The reason in words, put together when somebody asks: most who wait are looked at many times before."""
        return self.told if isinstance(self.told, str) else self.told()


class Fleet:
    """The nodes, in the order of their names, with an index for every question that has been asked of them."""

    def __init__(self, entries: Sequence[NodesEntry], quota: Quota) -> None:
        self._quota = quota
        kinds: dict[tuple[Card, ...], Kind] = {}
        built: list[tuple[str, Kind, NodeState]] = []
        for entry in entries:
            kind = kinds.setdefault(entry.cards, Kind(entry.cards))
            state = kind.state(entry.holdings)
            built += [(name, kind, state) for name in entry.names]
        self.nodes = [
            Node(name, rank, kind, state) for rank, (name, kind, state) in enumerate(sorted(built, key=_name))
        ]
        self.by_name = {node.name: node for node in self.nodes}
        self._by_question: dict[tuple[Flavor, Need, int], Index] = {}
        self._asked: dict[Flavor, list[tuple[Need, Index]]] = {}
        self._join_flavors()

    def lose(self, node: Node) -> None:
        """The node is gone, and so are its credits."""
        node.gone = True
        for flavor in node.flavors:
            for _, index in self._asked.get(flavor, ()):
                index.changed(node.rank, 0, grew=True)
        self._quota.plan({each.name: each.kind.cards for each in self.nodes if not each.gone})
        self._join_flavors()

    def change(self, node: Node, state: NodeState, *, grew: bool) -> None:
        """The node is held differently now; ``grew`` says that this may have made room."""
        before, node.state = node.state, state
        if node.gone:
            return
        rank = node.rank
        for flavor, were in node.counts.items():
            asked = self._asked[flavor]
            row = state.counts(flavor, asked, were, before)
            node.counts[flavor] = row
            for (_, index), old, new in zip(asked, were, row, strict=True):
                if old != new or (grew and index.missed.count(rank)):
                    index.changed(rank, new, grew=grew)

    def index(self, flavor: Flavor, need: Need, pods: int) -> Index:
        """The nodes of the flavor for so many Pods of the need on one node."""
        index = self._by_question.get((flavor, need, pods))
        if index is None:
            index = self._by_question[flavor, need, pods] = Index(len(self.nodes), pods)
            self._asked.setdefault(flavor, []).append((need, index))
            for node in self.nodes:
                if not node.gone and flavor in node.flavors:
                    count = node.state.count(need)
                    node.counts[flavor] = (*node.counts.get(flavor, ()), count)
                    index.changed(node.rank, count, grew=True)
        return index

    def _join_flavors(self) -> None:
        for node in self.nodes:
            found = (self._quota.flavor_of(akey, count) for akey, count in node.kind.counts.items())
            node.flavors = tuple(flavor for flavor in found if flavor is not None)


def place(request: Request, fleet: Fleet, quota: Quota, *, pinned: Node | None = None) -> Placed | Waits:
    """Pass a Workload through gates 2 and 3 as the fleet stands; `pinned` is the one node to judge it on."""
    queue = quota.queues.get(request.akey)
    if queue is None or queue.refusal:
        return Waits(2, queue.refusal if queue else f"no pool offers {request.akey} accelerators", credits=False)
    attempt = _Attempt(fleet, pinned)
    for role in request.roles:
        waits: Waits | None = None
        for flavor in queue.flavors:
            refused = attempt.take(role, flavor)
            if refused is None:
                break
            waits = refused if waits is None else max(waits, refused, key=_telling)
        else:
            return waits or Waits(2, f"queue {queue.name} has no flavor left", credits=False)
    return attempt.placed()


class _Attempt:
    """A Workload's PodSets placed one after another: credits spent, and Pods given to nodes, so far."""

    def __init__(self, fleet: Fleet, pinned: Node | None) -> None:
        self._fleet = fleet
        self._pinned = pinned
        self._credits: dict[Flavor, int] = {}
        self._loads: dict[int, Load] = {}
        self._answers: dict[int, Answer] = {}
        self._roles: dict[int, tuple[str, ...]] = {}

    def take(self, role: Role, flavor: Flavor) -> Waits | None:
        """Place a PodSet on the flavor's nodes, or say why not."""
        asked, spent = role.need.credits * role.pods, self._credits.get(flavor, 0)
        if asked + spent > flavor.free:
            left = flavor.free - spent
            return Waits(2, f"asks for {asked} credits, flavor {flavor.name} has {left} left", credits=False)
        if self._pinned is not None:
            waits = self._on(self._pinned, role, flavor)
        elif self._on_one_node(role, flavor) or (role.pods > 1 and self._on_several(role, flavor)):
            waits = None
        else:
            waits = self._held(role, flavor)
        if waits is None:
            self._credits[flavor] = spent + asked
        return waits

    def placed(self) -> Placed:
        """The place, once every PodSet has one."""
        nodes = self._fleet.nodes
        taken = [(nodes[rank], answer) for rank, answer in self._answers.items()]
        return Placed(tuple(taken), tuple(self._credits.items()))

    def _on(self, node: Node, role: Role, flavor: Flavor) -> Waits | None:
        """Judge the PodSet on the node that the scenario names."""
        if node.gone:
            return Waits(3, f"node {node.name} is gone")
        if flavor not in node.flavors:
            return Waits(2, f"node {node.name} is not of flavor {flavor.name}")
        if self._give(node, role, role.pods):
            return None
        return Waits(3, partial(self._miss, node, node.state, role, role.pods))

    def _on_one_node(self, role: Role, flavor: Flavor) -> bool:
        """The first node in Kueue's order that takes all Pods, and whose cards agree."""
        if not self._loads:
            index = self._fleet.index(flavor, role.need, role.pods)
            while (rank := index.listed.first()) is not None:
                if self._give(self._fleet.nodes[rank], role, role.pods):
                    return True
                index.miss(rank)
            return False
        with closing(self._candidates(role, flavor, role.pods)) as candidates:
            return any(self._give(node, role, role.pods) for _, node in candidates)

    def _on_several(self, role: Role, flavor: Flavor) -> bool:
        """Kueue's split: node after node, each filled; only nodes that take all Pods that could be sent there."""
        before = dict(self._loads), dict(self._answers), dict(self._roles)
        left = role.pods
        with closing(self._candidates(role, flavor, 1)) as candidates:
            for count, node in candidates:
                if node.state.answer(self._load(node, role, min(count, role.pods))) is None:
                    continue
                self._give(node, role, min(count, left))
                left -= min(count, left)
                if not left:
                    return True
        self._loads, self._answers, self._roles = before
        return False

    def _candidates(self, role: Role, flavor: Flavor, pods: int) -> Generator[tuple[int, Node], None, None]:
        """Nodes that count room for so many Pods, least first; those with other PodSets' Pods count without theirs."""
        nodes = self._fleet.nodes
        index = self._fleet.index(flavor, role.need, pods)
        laden = sorted(
            (count, rank)
            for rank, load in self._loads.items()
            if flavor in nodes[rank].flavors and (count := nodes[rank].state.count(role.need, load)) >= pods
        )
        with closing(index.listed.ascending()) as ranks:
            for rank in ranks:
                while laden and laden[0] <= (index.listed.count(rank), rank):
                    count, other = laden.pop(0)
                    yield count, nodes[other]
                if rank not in self._loads:
                    yield index.listed.count(rank), nodes[rank]
        for count, other in laden:
            yield count, nodes[other]

    def _load(self, node: Node, role: Role, pods: int) -> Load:
        """What the node was given so far, and so many Pods more."""
        return (*self._loads.get(node.rank, ()), (role.need, pods))

    def _give(self, node: Node, role: Role, pods: int) -> bool:
        """Give the node so many Pods, if its cards agree together with what it was given before."""
        load = self._load(node, role, pods)
        answer = node.state.answer(load)
        if answer is None:
            return False
        self._loads[node.rank] = load
        self._answers[node.rank] = answer
        self._roles[node.rank] = (*self._roles.get(node.rank, ()), role.name)
        return True

    def _held(self, role: Role, flavor: Flavor) -> Waits:
        """What Kueue's first choice is lacking; at gate 2 when Kueue itself finds no node."""
        for pods in sorted({role.pods, 1}, reverse=True):
            rank = self._fleet.index(flavor, role.need, pods).first_choice
            if rank is None:
                continue
            node = self._fleet.nodes[rank]
            sent = min(node.state.count(role.need), role.pods)
            if pods == role.pods or self._enough(role, flavor):
                return Waits(3, partial(self._miss, node, node.state, role, sent))
        return Waits(2, f"no node of flavor {flavor.name} counts room for it")

    def _enough(self, role: Role, flavor: Flavor) -> bool:
        """Whether the nodes' totals take all Pods of the PodSet together."""
        left = role.pods
        for node in self._fleet.nodes:
            if not node.gone and flavor in node.flavors:
                left -= node.state.count(role.need)
                if left <= 0:
                    return True
        return False

    def _miss(self, node: Node, state: NodeState, role: Role, pods: int) -> str:
        load = self._load(node, role, pods)
        message = state.miss(load, (*self._roles.get(node.rank, ()), role.name), node.name)
        return (
            message or f"node {node.name} has room for {pods} of {role.pods} Pods, its neighbours for none of the rest"
        )


def _telling(waits: Waits) -> tuple[int, bool]:
    """Of several flavors' answers the one that came furthest."""
    return waits.gate, waits.credits


def _name(built: tuple[str, Kind, NodeState]) -> str:
    return built[0]
