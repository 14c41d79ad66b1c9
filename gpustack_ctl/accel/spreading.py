"""Which node each Pod goes to, where Kueue has not said.

Every queue of ours has its Pods assigned to nodes by topology, so this is for the exception: a PodSet judged across its
flavor's whole node pool. A Pod keeps to one node, so the question is a search over nodes with `search.pack` as its
judge. Nodes whose cards are in the same state and that were given the same claims are interchangeable, and only one of
them is tried; a set of Pods that failed against the same loads is not tried again. Exponential in the number of
different Pods at worst, and bounded by the same budget as the packing itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from gpustack_ctl.accel.cards import CardState, NodeCards
from gpustack_ctl.accel.requests import ContainerDemand
from gpustack_ctl.accel.search import Budget, pack

Wish = tuple[str, tuple[ContainerDemand, ...], Sequence[str]]
"""A Pod: the model it needs, its claims, the nodes it may go to."""


def spread(pods: Sequence[Wish], nodes: Mapping[str, NodeCards], budget: Budget) -> list[str] | None:
    """A node for every Pod, such that each node can pack what it is given; None when there is none.

    Pods with a single node are settled; a caller still packs every node to learn the cards. Raises Exhausted.
    """
    where: list[str | None] = [only[0] if len(only) == 1 else None for _, _, only in pods]
    open_pods = [at for at, node in enumerate(where) if node is None]
    if not open_pods:
        return [node for node in where if node is not None]
    return _Spreading(pods, nodes, where, budget).run(sorted(open_pods, key=lambda at: _weight(pods[at])))


class _Spreading:
    """One search: where each Pod stands, what each node was given, and what is known to fail."""

    def __init__(
        self, pods: Sequence[Wish], nodes: Mapping[str, NodeCards], where: list[str | None], budget: Budget
    ) -> None:
        self.pods = pods
        self.nodes = nodes
        self.where = where
        self.budget = budget
        self.alike = _alike(nodes)
        self.loads: dict[str, list[int]] = {}
        for at, node in enumerate(where):
            if node is not None:
                self.loads.setdefault(node, []).append(at)
        self.judged: dict[Hashable, bool] = {}
        self.failed: set[Hashable] = set()

    def run(self, order: Sequence[int]) -> list[str] | None:
        if not self._place(order, 0):
            return None
        return [node for node in self.where if node is not None]

    def _place(self, order: Sequence[int], turn: int) -> bool:
        if turn == len(order):
            return True
        state = (turn, tuple(sorted(self._load(node) for node in self.loads if self.loads[node])))
        if state in self.failed:
            return False
        at = order[turn]
        tried = set()
        for node in self.pods[at][2]:
            self.budget.spend()
            load = self._load(node)
            if load in tried:
                continue
            tried.add(load)
            self.loads.setdefault(node, []).append(at)
            self.where[at] = node
            if self._packs(node) and self._place(order, turn + 1):
                return True
            self.loads[node].pop()
        self.where[at] = None
        self.failed.add(state)
        return False

    def _load(self, node: str) -> tuple[int, tuple[Hashable, ...]]:
        """What tells a node from another: its cards' state and the claims it was given."""
        return self.alike[node], tuple(sorted(_kind(self.pods[at]) for at in self.loads.get(node, ())))

    def _packs(self, node: str) -> bool:
        load = self._load(node)
        if load not in self.judged:
            self.judged[load] = self._judge(node)
        return self.judged[load]

    def _judge(self, node: str) -> bool:
        claims: dict[str, list[ContainerDemand]] = {}
        for at in self.loads[node]:
            akey, wanted, _ = self.pods[at]
            claims.setdefault(akey, []).extend(wanted)
        cards = self.nodes[node]
        return all(pack(cards.of(akey), wanted, self.budget) is not None for akey, wanted in claims.items())


def _alike(nodes: Mapping[str, NodeCards]) -> dict[str, int]:
    """A number per node, the same for nodes that serve the same: cards in the same state, the same pinned counts."""
    numbers: dict[Hashable, int] = {}
    return {
        name: numbers.setdefault(
            (tuple(sorted(map(_figures, cards.states))), tuple(sorted(cards.counts.items()))), len(numbers)
        )
        for name, cards in nodes.items()
    }


def _figures(state: CardState) -> tuple[str, bool, int, int, int, int, str]:
    card = state.card
    profiles = ";".join(f"{profile.name}{profile.placements}" for profile in card.profiles)
    return card.akey, card.healthy, int(state.mode), state.remaining, state.slots_free, state.occupied, profiles


def _kind(pod: Wish) -> tuple[str, tuple[tuple[str, int, int, str], ...]]:
    akey, claims, _ = pod
    return akey, tuple((claim.family.value, claim.cards, claim.units, claim.profile or "") for claim in claims)


def _weight(pod: Wish) -> tuple[int, tuple[str, tuple[tuple[str, int, int, str], ...]]]:
    """Sorts the heaviest first, and equal Pods next to each other."""
    return -sum(claim.cards * claim.units for claim in pod[1]), _kind(pod)
