"""Gate 3, the admission check: it looks at the cards one by one and says Ready, or holds the Workload.

Kueue takes a hold's words away when it resets the check, so for a Workload that waits for its next turn they come from
the event that told of them. `Outlook` is the same question asked again now; its answer and the check's may differ for
the moment until the check is woken.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpustack_ctl.accel.cards import CardState, NodeCards
from gpustack_ctl.controllers.workloads import check_state, nodes_of
from gpustack_ctl.explain.answers import Answer, named
from gpustack_ctl.explain.remedies import holder
from gpustack_ctl.explain.webhook import NOT_QUEUED, QUEUE_IT
from gpustack_ctl.kube.objects import Obj, is_true

NOT_LISTED = "not asked: the queue lists no such check"


@dataclass(frozen=True, slots=True)
class Outlook:
    """What gate 3 would say now: the words of its verdict, the cards it looks at, and what would have to change."""

    fits: bool
    message: str
    saw: str = ""
    change: str = ""


def check_of(workload: Obj | None, *, told: str = "", outlook: Outlook | None = None) -> Answer:
    """Gate 3's answer to a Workload; None for a Pod that has none yet. `told` is what the last hold's event said."""
    state = check_state(workload) if workload is not None else None
    if workload is not None and state is None and is_true(workload, "Admitted"):
        return Answer(3, "", "unknown", NOT_LISTED)
    saw = outlook.saw if outlook is not None else _looked_at(workload)
    change = outlook.change if outlook is not None else ""
    said = (state or {}).get("message", "")
    match (state or {}).get("state"):
        case "Ready":
            return Answer(3, _looked_at(workload), "passed", said)
        case "Retry":
            return Answer(3, saw, "held", said, change)
        case "Rejected":
            return Answer(3, saw, "refused", said, change)
    if told:
        return Answer(3, saw, "held", told, change)
    message = said or "not asked yet"
    if outlook is not None and outlook.message:
        message = f"{message}; it would say now: {outlook.message}"
    return Answer(3, saw if outlook is not None else "", "waiting", message, change)


def not_queued() -> Answer:
    """Gate 3 is not asked about a Pod without a queue label."""
    return Answer(3, "", "unknown", NOT_QUEUED, QUEUE_IT)


def described(nodes: Mapping[str, NodeCards], akeys: Iterable[str]) -> str:
    """The cards of these models, node by node: how each is taken, and by whom."""
    wanted = frozenset(akeys)
    shown = list(_described(nodes.values(), wanted))
    more = f"; and {len(shown) - _MOST_NODES} nodes more" if len(shown) > _MOST_NODES else ""
    return "; ".join(shown[:_MOST_NODES]) + more


_MOST_NODES = 8


def _looked_at(workload: Obj | None) -> str:
    nodes = sorted(nodes_of(workload)) if workload is not None else []
    return f"the cards of {named(nodes)}" if nodes else ""


def _described(nodes: Iterable[NodeCards], akeys: frozenset[str]) -> Iterator[str]:
    for cards in nodes:
        states = [state for state in cards.states if state.card.akey in akeys]
        yield f"node {cards.node}: " + (", ".join(map(_card, states)) or "no ledger of such cards")


def _card(state: CardState) -> str:
    holders = list(dict.fromkeys(holder(holding.pod) for holding in state.holdings))
    return state.describe() + (f" by {named(holders)}" if holders else "")
