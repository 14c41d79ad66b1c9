from gpustack_ctl.accel.cards import NodeCards
from gpustack_ctl.accel.feasibility import Miss, Plan, fit
from gpustack_ctl.accel.inflight import Inflight, occupy
from gpustack_ctl.accel.placement import Planned
from tests.unit.accel.builders import (
    A100,
    a_slice,
    card,
    demand,
    free_node,
    held,
    mig_card,
    node,
    wants_partition,
    wants_slice,
    wants_whole,
    whole,
)


def after(cards: NodeCards, *inflight: Inflight) -> NodeCards:
    return occupy({cards.node: cards}, inflight)[cards.node]


def taken(cards: NodeCards) -> list[str]:
    return [state.card.id for state in cards.states if not state.free]


def test_an_admitted_workload_holds_its_cards_before_its_pods_do() -> None:
    cards = after(free_node(4), Inflight("team/a", demand(wants_whole(3))))
    assert isinstance(fit([demand(wants_whole(2))], {cards.node: cards}), Miss)
    assert isinstance(fit([demand(wants_whole(1))], {cards.node: cards}), Plan)


def test_a_planned_workload_counts_where_its_plan_put_it() -> None:
    plan = ({"main": (Planned("GPU-2"),)},)
    assert taken(after(free_node(4), Inflight("team/a", demand(wants_whole()), plan))) == ["GPU-2"]


def test_a_planned_partition_counts_in_its_interval() -> None:
    plan = ({"main": (Planned("GPU-0", "3g.40gb", 0),)},)
    cards = after(node(mig_card()), Inflight("team/a", demand(wants_partition("3g.40gb"), akey=A100), plan))
    assert cards.states[0].occupied == 0b1111


def test_a_workload_without_a_plan_counts_by_packing_order() -> None:
    cards = node(card(0), held(card(1), a_slice(50)))
    assert taken(after(cards, Inflight("team/a", demand(wants_slice(30))))) == ["GPU-1"]


def test_planned_workloads_are_placed_before_unplanned_ones() -> None:
    unplanned = Inflight("team/a", demand(wants_whole()))
    planned = Inflight("team/b", demand(wants_whole()), ({"main": (Planned("GPU-0"),)},))
    cards = after(free_node(3), unplanned, planned)
    assert taken(cards) == ["GPU-0", "GPU-1"]
    assert cards.states[0].holdings[0].pod.name == "team/b"


def test_a_plan_that_no_longer_holds_falls_back_to_the_packing_order() -> None:
    plan = ({"main": (Planned("GPU-0"),)},)
    cards = after(node(held(card(0), whole()), card(1)), Inflight("team/a", demand(wants_whole()), plan))
    assert taken(cards) == ["GPU-0", "GPU-1"]


def test_of_a_workload_that_no_longer_fits_as_much_as_does_is_counted() -> None:
    assert taken(after(free_node(3), Inflight("team/a", demand(wants_whole(2), pods=2)))) == ["GPU-0", "GPU-1"]


def test_only_the_pods_not_yet_held_are_counted() -> None:
    plan = ({"main": (Planned("GPU-0"),)}, {"main": (Planned("GPU-1"),)})
    assert taken(after(free_node(3), Inflight("team/a", demand(wants_whole(), pods=1), plan[1:]))) == ["GPU-1"]


def test_a_workload_on_a_node_that_is_not_looked_at_changes_nothing() -> None:
    cards = free_node(2)
    assert after(cards, Inflight("team/a", demand(wants_whole(), on="elsewhere"))) == cards
    assert after(cards, Inflight("team/a", demand(wants_whole(), on=None))) == cards
