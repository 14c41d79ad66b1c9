"""What would have to change: cards and Pods without which there is no room, and nothing that could be spared."""

import pytest

from gpustack_ctl.accel.cards import CardState, Holding, NodeCards, PodKey
from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.feasibility import Demand, Plan, fit
from gpustack_ctl.accel.units import M
from gpustack_ctl.explain.remedies import holder, remedies
from tests.unit.accel.builders import (
    A100,
    a_partition,
    a_slice,
    card,
    demand,
    held,
    mig_card,
    node,
    share,
    wants_partition,
    wants_share,
    wants_slice,
    wants_whole,
    whole,
)


def crowded() -> NodeCards:
    """One card whole, one sliced by one Pod, one sliced by two, one free."""
    return node(
        held(card(0), whole("a")),
        held(card(1), a_slice(40, "b")),
        held(card(2), a_slice(40, "c"), a_slice(20, "d")),
        card(3),
    )


@pytest.mark.parametrize(
    ("cards", "ways"),
    [
        (2, ["1 more free card on node-1 (say GPU-1)", "the end of Pod team/b or of Pod team/a"]),
        (
            3,
            [
                "2 more free cards on node-1 (say GPU-1, GPU-2)",
                "the end of Pod team/b, Pod team/c, Pod team/d together",
            ],
        ),
        (5, []),
    ],
)
def test_whole_cards_need_as_many_more_as_are_missing(cards: int, ways: list[str]) -> None:
    assert remedies([demand(wants_whole(cards))], {"node-1": crowded()}) == ways


def test_a_slice_needs_one_card_with_room_and_every_pod_that_would_make_it_is_named() -> None:
    cards = node(held(card(0), whole("a")), held(card(1), a_slice(60, "b")))
    assert remedies([demand(wants_slice(50))], {"node-1": cards}) == [
        "1 more free card on node-1 (say GPU-1)",
        "the end of Pod team/b or of Pod team/a",
    ]


def test_a_pod_whose_end_would_not_help_is_not_named() -> None:
    cards = node(held(card(0), a_slice(50, "big"), a_slice(10, "small")))
    assert remedies([demand(wants_slice(60))], {"node-1": cards})[1] == "the end of Pod team/big"


def test_distinct_cards_for_shares_are_counted_as_cards() -> None:
    cards = node(held(card(0), whole("a")), held(card(1), share("b")))
    assert remedies([demand(wants_share(2))], {"node-1": cards}) == [
        "1 more free card on node-1 (say GPU-0)",
        "the end of Pod team/a",
    ]


def test_a_partition_needs_the_interval_that_somebody_holds() -> None:
    cards = node(held(mig_card(0), a_partition("3g.40gb", 0, by="left"), a_partition("3g.40gb", 4, by="right")))
    ways = remedies([demand(wants_partition("3g.40gb"), akey=A100)], {"node-1": cards})
    assert ways[1] == "the end of Pod team/left or of Pod team/right"


def test_a_sick_card_is_a_way_of_its_own() -> None:
    cards = node(held(card(0), whole("a")), card(1, healthy=False))
    assert remedies([demand(wants_whole())], {"node-1": cards}) == [
        "GPU-1 to be healthy again",
        "1 more free card on node-1 (say GPU-0)",
        "the end of Pod team/a",
    ]


def test_the_node_that_is_nearest_is_named_of_several() -> None:
    full = node(held(card(0), whole("a")), held(card(1), whole("b")), name="full")
    half = node(held(card(2), whole("c")), card(3), name="half")
    ways = remedies([demand(wants_whole(2), on=None)], {"full": full, "half": half})
    assert ways[0] == "1 more free card on half (say GPU-2)"
    assert ways[1] == "the end of Pod team/c"


def test_of_a_thousand_nodes_the_nearest_are_asked() -> None:
    def name(index: int) -> str:
        return f"node-{index:03}"

    cards = [
        [held(card(2 * index), whole(f"a{index}")), held(card(2 * index + 1), whole(f"b{index}"))]
        for index in range(1000)
    ]
    cards[777][0] = held(card(1554))
    nodes = {name(index): node(*states, name=name(index)) for index, states in enumerate(cards)}
    ways = remedies([demand(wants_whole(2), on=None)], nodes)
    assert ways == ["1 more free card on node-777 (say GPU-1555)", "the end of Pod team/b777"]


def test_what_is_promised_to_a_workload_is_named_as_one() -> None:
    assert holder(PodKey("", "team/next", "inflight")) == "Workload team/next"
    promised = Holding(PodKey("", "team/next", "inflight"), "main", Mode.EXCLUSIVE, M)
    ways = remedies([demand(wants_whole())], {"node-1": node(held(card(0), promised))})
    assert ways[1] == "the end of Workload team/next"


@pytest.mark.parametrize("wanted", [demand(wants_whole(3)), demand(wants_slice(70), pods=3)])
def test_taking_away_what_is_named_makes_room_and_less_does_not(wanted: Demand) -> None:
    """The Pods named together are enough, and each of them is needed."""
    cards = node(*(held(card(index), a_slice(60, f"p{index}")) for index in range(3)))
    together = remedies([wanted], {"node-1": cards})[1]
    assert together == "the end of Pod team/p0, Pod team/p1, Pod team/p2 together"
    for spared in range(3):
        left: list[CardState] = [held(card(i), *([a_slice(60, f"p{i}")] if i == spared else [])) for i in range(3)]
        assert not isinstance(fit([wanted], {"node-1": node(*left)}), Plan)
