"""Workloads that were told Ready and whose Pods hold nothing yet.

The ledger moves only when a Pod's record is written, which is after admission, scheduling and the kubelet. Until then
the cards of an admitted Workload look free to the next one. So they are taken here first: where the Workload's plan put
them, since that is where the allocator will look; by the packing order where there is no plan, or it no longer holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpustack_ctl.accel.cards import NodeCards, PodKey
from gpustack_ctl.accel.feasibility import Demand, Plan, fit
from gpustack_ctl.accel.placement import Choice, choose, with_choices
from gpustack_ctl.accel.plans import PodPlan
from gpustack_ctl.accel.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Inflight:
    """What a Workload that was told Ready will still take on a node: its demand less the Pods held already.

    `plan` is the entries of its plan on that node that no Pod has taken yet, none when it was never planned.
    """

    workload: str
    demand: Demand
    plan: tuple[PodPlan, ...] = ()


def occupy(nodes: Mapping[str, NodeCards], inflight: Iterable[Inflight]) -> dict[str, NodeCards]:
    """The nodes once every inflight Workload has taken what it was promised.

    Planned Pods come first, so that nobody unplanned is counted on their cards. Where not all Pods fit, as many as do
    are counted: the others will be refused when they come.
    """
    cards = dict(nodes)
    unplanned: list[tuple[Inflight, int]] = []
    for workload in inflight:
        node = workload.demand.node
        if node not in cards:
            continue
        left = workload.demand.pods
        for entry in workload.plan[:left]:
            followed = _follow(workload, entry, cards[node])
            if followed is not None:
                cards[node] = followed
                left -= 1
        if left:
            unplanned.append((workload, left))
    for workload, left in unplanned:
        _take(workload, left, cards)
    return cards


def _follow(workload: Inflight, entry: PodPlan, cards: NodeCards) -> NodeCards | None:
    """The node with one Pod exactly where its plan puts it; None when the plan no longer holds."""
    for claim in workload.demand.pod.containers:
        planned = entry.get(claim.container, ())
        chosen = choose(claim, cards, prefer=planned, akey=workload.demand.akey)
        if isinstance(chosen, Refusal) or {choice.planned() for choice in chosen} != set(planned):
            return None
        cards = _hold(workload, cards, chosen)
    return cards


def _take(workload: Inflight, pods: int, cards: dict[str, NodeCards]) -> None:
    """All of the Pods if a short search finds how, else one by one in packing order while they fit."""
    if _place(workload, pods, cards):
        return
    while pods and _place(workload, 1, cards):
        pods -= 1


def _place(workload: Inflight, pods: int, cards: dict[str, NodeCards]) -> bool:
    found = fit([replace(workload.demand, pods=pods, card_count=None)], cards, bound=_SHORT_SEARCH)
    if not isinstance(found, Plan):
        return False
    for placed in found.pods:
        cards[placed.node] = _hold(workload, cards[placed.node], placed.choices)
    return True


#: A guess at what the allocator will do needs no proof.
_SHORT_SEARCH = 500


def _hold(workload: Inflight, cards: NodeCards, chosen: Iterable[Choice]) -> NodeCards:
    return with_choices(cards, PodKey("", workload.workload, "inflight"), chosen)
