import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpustack_ctl.accel.cards import NodeCards, PodKey
from gpustack_ctl.accel.feasibility import Demand, Plan, fit
from gpustack_ctl.accel.placement import Choice, Planned, choose, with_choices
from gpustack_ctl.accel.plans import PLAN_LIMIT, PodPlan, format_plan, open_entries, parse_plan, planned_cards
from gpustack_ctl.accel.records import Record
from gpustack_ctl.accel.refusals import Refusal
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
    wants_share,
    wants_slice,
    wants_whole,
)


def planned(cards: NodeCards, *demands: Demand) -> dict[str, str]:
    found = fit(demands, {cards.node: cards})
    assert isinstance(found, Plan)
    return found.annotations()


def test_a_plan_is_written_as_the_contract_says() -> None:
    found = fit([demand(wants_partition("3g.40gb"), akey=A100)], {"node-1": node(mig_card())})
    assert isinstance(found, Plan)
    assert found.annotations() == {
        "main": '{"v":1,"nodes":{"node-1":[{"main":[{"id":"GPU-0","profile":"3g.40gb","start":4}]}]}}'
    }
    assert planned(free_node(1), demand(wants_whole())) == {
        "main": '{"v":1,"nodes":{"node-1":[{"main":[{"id":"GPU-0"}]}]}}'
    }


def test_every_pod_of_a_role_has_an_entry_on_its_node() -> None:
    text = planned(free_node(4), demand(wants_whole(2), pods=2, role="decode"))["decode"]
    entries = parse_plan(text, "node-1")
    assert [planned_cards([entry]) for entry in entries] == [
        (Planned("GPU-0"), Planned("GPU-1")),
        (Planned("GPU-2"), Planned("GPU-3")),
    ]
    assert parse_plan(text, "node-2") == ()


def test_a_plan_past_the_limit_is_not_written() -> None:
    chosen = choose(wants_whole(), free_node(1))
    assert not isinstance(chosen, Refusal)
    assert format_plan({"node-1": [chosen] * PLAN_LIMIT}) is None
    assert parse_plan(" " * (PLAN_LIMIT + 1), "node-1") == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"v":2,"nodes":{}}',
        '{"v":1}',
        '{"v":1,"nodes":[]}',
        '{"v":1,"nodes":{"node-1":7}}',
        '{"v":1,"nodes":{"node-1":[7]}}',
        '{"v":1,"nodes":{"node-1":[{"main":[{}]}]}}',
        '{"v":1,"nodes":{"node-1":[{"main":[{"id":7}]}]}}',
        '{"v":1,"nodes":{"node-1":[{"main":[{"id":"GPU-0","start":"4"}]}]}}',
    ],
)
def test_a_text_that_is_no_plan_is_not_followed(text: str) -> None:
    assert parse_plan(text, "node-1") == ()


def test_an_entry_that_a_sibling_has_taken_is_no_longer_open() -> None:
    cards = free_node(3)
    text = planned(cards, demand(wants_whole(), pods=3))["main"]
    entries = parse_plan(text, "node-1")
    second = choose(wants_whole(), cards, prefer=[Planned("GPU-1")])
    assert not isinstance(second, Refusal)
    left = open_entries(entries, [{"main": tuple(choice.entry() for choice in second)}])
    assert planned_cards(left) == (Planned("GPU-0"), Planned("GPU-2"))


def test_a_sibling_that_has_come_half_way_keeps_its_entry() -> None:
    claims = (wants_whole(container="a"), wants_whole(container="b"))
    cards = free_node(4)
    first, second = parse_plan(planned(cards, demand(*claims, pods=2))["main"], "node-1")
    chosen = choose(claims[0], cards, prefer=first["a"])
    assert not isinstance(chosen, Refusal)
    assert open_entries([first, second], [{"a": tuple(choice.entry() for choice in chosen)}]) == (second,)


def test_a_sibling_on_other_cards_takes_no_entry() -> None:
    entries = parse_plan(planned(free_node(2), demand(wants_whole(), pods=2))["main"], "node-1")
    stray = choose(wants_whole(), free_node(9), prefer=[Planned("GPU-8")])
    assert not isinstance(stray, Refusal)
    assert open_entries(entries, [{"main": tuple(choice.entry() for choice in stray)}, {}]) == entries


class Allocator:
    """The node's side of a plan: one Pod after another, each following what is left of its role's plan."""

    def __init__(self, cards: NodeCards, plans: dict[str, str]) -> None:
        self.cards = cards
        self.entries = {role: parse_plan(text, cards.node) for role, text in plans.items()}
        self.records: dict[str, list[Record]] = {role: [] for role in plans}
        self.arrived = 0

    def admit(self, wanted: Demand) -> bool:
        mine, *siblings = self._open(wanted.role)
        others = [entry for role in self.entries if role != wanted.role for entry in self._open(role)]
        self.arrived += 1
        key = PodKey("", wanted.role, f"{self.arrived}")
        record: dict[str, tuple[Choice, ...]] = {}
        for claim in wanted.pod.containers:
            avoid = planned_cards([*siblings, *others])
            chosen = choose(claim, self.cards, prefer=mine.get(claim.container, ()), avoid=avoid)
            if isinstance(chosen, Refusal):
                return False
            record[claim.container] = chosen
            self.cards = with_choices(self.cards, key, chosen)
        self.records[wanted.role].append({name: tuple(c.entry() for c in held) for name, held in record.items()})
        return True

    def _open(self, role: str) -> Sequence[PodPlan]:
        return open_entries(self.entries[role], self.records[role])


def test_a_fit_that_packing_as_it_comes_would_strand_comes_true() -> None:
    cards = node(held(card(0), a_slice(50)), held(card(1), a_slice(40)))
    demands = [demand(wants_slice(30), pods=2, role="small"), demand(wants_slice(50), role="large")]
    order = [demands[0], demands[0], demands[1]]
    allocator = Allocator(cards, planned(cards, *demands))
    assert all(allocator.admit(each) for each in order)
    unplanned = cards
    for number, each in enumerate(order):
        chosen = choose(each.pod.containers[0], unplanned)
        if isinstance(chosen, Refusal):
            break
        unplanned = with_choices(unplanned, PodKey("", "", f"{number}"), chosen)
    else:
        raise AssertionError("packing order alone places all three: the plan proves nothing here")


CLAIMS = st.one_of(
    st.integers(1, 2).map(wants_whole),
    st.integers(1, 3).map(wants_share),
    st.sampled_from([20, 25, 30, 35, 45, 50, 60]).map(wants_slice),
    st.sampled_from(["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb"]).map(wants_partition),
)
HELD = st.one_of(st.none(), st.sampled_from([10, 40, 50]))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(HELD, min_size=1, max_size=4),
    st.lists(st.tuples(CLAIMS, st.integers(1, 4)), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_a_ready_comes_true_in_every_order_of_arrival(used, wanted, order: random.Random) -> None:  # type: ignore[no-untyped-def]
    model = {"group": "a100-sxm4-80gb"}
    plain = [held(card(at, **model), *([a_slice(percent)] if percent else [])) for at, percent in enumerate(used)]
    cards = node(*plain, mig_card(8), mig_card(9))
    demands = [demand(claim, pods=pods, akey=A100, role=f"role-{at}") for at, (claim, pods) in enumerate(wanted)]
    found = fit(demands, {cards.node: cards})
    if not isinstance(found, Plan):
        return
    arrivals = [each for each in demands for _ in range(each.pods)]
    order.shuffle(arrivals)
    allocator = Allocator(cards, found.annotations())
    assert all(allocator.admit(each) for each in arrivals)
