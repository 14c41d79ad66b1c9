"""What would have to change for demands to fit: the gate's own question, asked of cards as they might be.

Nothing is estimated. Cards are emptied, or Pods taken away, until the demands fit; then everything that turns out not
to matter is put back. What is left names cards and Pods without which there is no room.

Pure: cards in, words out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from gpustack_ctl.accel.cards import CardState, NodeCards, PodKey, state_of
from gpustack_ctl.accel.feasibility import Demand, Plan, fit
from gpustack_ctl.explain.answers import named

Nodes = Mapping[str, NodeCards]
T = TypeVar("T")

_MOST_TRIED = 64
"""Pods or cards that are tried, those of the nearest node first: an explanation is not worth more."""

_MOST_NODES = 16

_SHORT_SEARCH = 2_000


def remedies(demands: Sequence[Demand], nodes: Nodes) -> list[str]:
    """What would make room for demands that have none, each way on its own; empty if these nodes could never serve."""
    near = _nearest(demands, nodes)
    if ways := [*_healthier(demands, near), *_emptier(demands, near)]:
        return ways
    if _fits(demands, _changed(nodes, lambda state: state_of(state.card))):
        return [f"more room on {named(sorted(nodes))} than the end of {_MOST_TRIED} Pods makes"]
    return []


def hopeless(nodes: Nodes) -> str:
    """What to say where there is no remedy."""
    where = named(sorted(nodes)) or "what nodes there are"
    return f"other nodes, or a smaller request: {where} could not hold it with every card free"


def holder(pod: PodKey) -> str:
    """Who holds a card: a Pod, or a Workload whose Pods are still to come."""
    return f"Pod {pod}" if pod.namespace else f"Workload {pod.name}"


def _nearest(demands: Sequence[Demand], nodes: Nodes) -> Nodes:
    """Of many nodes those with most left, and as many as there may be Pods: whoever asks wants the shortest way."""
    wanted = {demand.akey for demand in demands}
    most = max(_MOST_NODES, sum(demand.pods for demand in demands))
    return dict(sorted(nodes.items(), key=lambda item: -_left(item[1], wanted))[:most])


def _healthier(demands: Sequence[Demand], nodes: Nodes) -> Iterator[str]:
    sick = [state.card.id for cards in nodes.values() for state in cards.states if not state.card.healthy]
    needed = _least(sick, lambda ids: _fits(demands, _changed(nodes, lambda state: _healed(state, ids))))
    if needed:
        yield f"{named(needed)} to be healthy again"


def _emptier(demands: Sequence[Demand], nodes: Nodes) -> Iterator[str]:
    wanted = {demand.akey for demand in demands}
    taken = [(cards, state) for cards in nodes.values() for state in cards.states if state.card.akey in wanted]
    taken = [(cards, state) for cards, state in taken if state.holdings]
    taken.sort(key=lambda pair: (-_left(pair[0], wanted), pair[0].node, pair[1].charged))
    where = {state.card.id: cards.node for cards, state in taken}
    emptied = _least([*where], lambda ids: _fits(demands, _changed(nodes, lambda state: _emptied(state, ids))))
    if emptied is None:
        return
    on = named(dict.fromkeys(where[card] for card in emptied))
    yield f"{len(emptied)} more free {'card' if len(emptied) == 1 else 'cards'} on {on} (say {named(emptied)})"

    def without(pods: Sequence[PodKey]) -> bool:
        return _fits(demands, _changed(nodes, lambda state: _released(state, pods)))

    holders = [*dict.fromkeys(holding.pod for _, state in taken for holding in state.holdings)][:_MOST_TRIED]
    if alone := [pod for pod in holders if without([pod])]:
        yield f"the end of {named(map(holder, alone), most=3).replace(', ', ' or of ')}"
    elif needed := _least(holders, without):
        yield f"the end of {named(map(holder, needed))} together"


def _least(things: Sequence[T], enough: Callable[[Sequence[T]], bool]) -> list[T] | None:
    """Things of which none can be spared and which are enough together; None when not even all of them are."""
    chosen: list[T] = []
    for thing in things[:_MOST_TRIED]:
        chosen.append(thing)
        if enough(chosen):
            break
    else:
        return None
    for thing in chosen[:-1]:
        fewer = [other for other in chosen if other != thing]
        if enough(fewer):
            chosen = fewer
    return chosen


def _fits(demands: Sequence[Demand], nodes: Nodes) -> bool:
    return isinstance(fit(demands, nodes, bound=_SHORT_SEARCH), Plan)


def _changed(nodes: Nodes, change: Callable[[CardState], CardState]) -> Nodes:
    return {name: replace(cards, states=tuple(map(change, cards.states))) for name, cards in nodes.items()}


def _healed(state: CardState, ids: Iterable[str]) -> CardState:
    return state_of(replace(state.card, healthy=True), state.holdings) if state.card.id in ids else state


def _emptied(state: CardState, ids: Iterable[str]) -> CardState:
    return state_of(state.card) if state.card.id in ids else state


def _released(state: CardState, pods: Iterable[PodKey]) -> CardState:
    return state_of(state.card, [holding for holding in state.holdings if holding.pod not in pods])


def _left(cards: NodeCards, akeys: Iterable[str]) -> int:
    return sum(state.remaining for akey in akeys for state in cards.of(akey))
