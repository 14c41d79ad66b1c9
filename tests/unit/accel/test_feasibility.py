"""Gate 3's verdict: known answers, messages, and agreement with an oracle that tries everything."""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpustack_ctl.accel.cards import CardState, NodeCards, PodKey
from gpustack_ctl.accel.families import Family
from gpustack_ctl.accel.feasibility import UNREADABLE_COUNT, Demand, Miss, PlacedPod, Plan, fit
from gpustack_ctl.accel.field_errors import invalid
from gpustack_ctl.accel.geometry import Placement, Profile
from gpustack_ctl.accel.placement import Choice, accepts, check, with_choices
from gpustack_ctl.accel.refusals import Cause
from gpustack_ctl.accel.requests import ContainerDemand, PodDemand
from tests.unit.accel.builders import (
    A10G,
    A100,
    a_partition,
    a_slice,
    card,
    demand,
    free_node,
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


def on(*cards: NodeCards) -> dict[str, NodeCards]:
    return {each.node: each for each in cards}


def fits(cards: NodeCards, *demands: Demand) -> bool:
    return isinstance(fit(demands, on(cards)), Plan)


def miss(found: Plan | Miss) -> Miss:
    assert isinstance(found, Miss)
    return found


#: Fills two cards exactly, as 45+30+25 and 35+35+30; taking the largest first puts 45 and 35 together and strands 25.
TIGHT = [demand(wants_slice(size), role=f"{size}-{at}") for at, size in enumerate((45, 35, 35, 30, 30, 25))]


class TestKnownAnswers:
    def test_eight_cards_at_fifty_percent_do_not_serve_five_whole_cards(self) -> None:
        assert not fits(node(*(held(card(i), a_slice(50)) for i in range(8))), demand(wants_whole(5)))

    def test_two_thirty_percent_slices_fit_one_free_card(self) -> None:
        assert fits(free_node(1), demand(wants_slice(30), pods=2))

    def test_two_sixty_percent_slices_do_not(self) -> None:
        assert not fits(free_node(1), demand(wants_slice(60), pods=2))

    def test_a_hygon_card_with_four_slices_takes_no_fifth(self) -> None:
        claim = wants_slice(10, manufacturer="hygon")
        hygon = card(manufacturer="hygon")
        assert fits(node(held(hygon, *(a_slice(10) for _ in range(3)))), demand(claim, akey=hygon.akey))
        assert not fits(node(held(hygon, *(a_slice(10) for _ in range(4)))), demand(claim, akey=hygon.akey))

    def test_cards_with_fifty_and_sixty_percent_free_take_a_fifty_and_two_thirties(self) -> None:
        cards = node(held(card(0), a_slice(50)), held(card(1), a_slice(40)))
        thirties = demand(wants_slice(30), pods=2, role="small")
        fifty = demand(wants_slice(50), role="large")
        for demands in ([thirties, fifty], [fifty, thirties]):
            plan = fit(demands, on(cards))
            assert isinstance(plan, Plan)
            assert {placed.choices[0].card.id for placed in plan.pods if placed.role == "small"} == {"GPU-1"}

    def test_a_packing_that_the_greedy_order_misses_is_found(self) -> None:
        found = fit(TIGHT, on(free_node(2)))
        assert isinstance(found, Plan)
        assert found.searched

    def test_room_for_a_whole_card_is_not_spent_on_a_share(self) -> None:
        cards = node(held(card(0), share()), card(1))
        assert fits(cards, demand(wants_share(), role="a"), demand(wants_whole(), role="b"))
        assert not fits(cards, demand(wants_share(2), role="a"), demand(wants_whole(), role="b"))

    def test_two_containers_of_a_pod_may_share_a_card(self) -> None:
        assert fits(free_node(1), demand(wants_share(container="a"), wants_share(container="b")))
        assert not fits(free_node(1), demand(wants_share(2)))

    def test_partitions_are_counted_by_interval_not_by_number(self) -> None:
        one = node(held(mig_card(), a_partition("1g.10gb", 2)))
        assert fits(one, demand(wants_partition("3g.40gb"), akey=A100))
        assert not fits(one, demand(wants_partition("3g.40gb"), pods=2, akey=A100))
        assert not fits(one, demand(wants_partition("4g.40gb"), akey=A100))

    def test_mixed_profiles_are_placed_so_that_all_of_them_fit(self) -> None:
        wanted = [demand(wants_partition(name), akey=A100, role=name) for name in ("1g.10gb", "2g.20gb", "4g.40gb")]
        assert fits(node(mig_card()), *wanted)
        assert fits(node(mig_card()), *reversed(wanted))

    def test_a_narrow_demand_is_not_starved_by_a_wide_one(self) -> None:
        cards = node(card(0), card(1, group="t4"))
        assert fits(cards, demand(wants_whole(), role="any"), demand(wants_whole(), akey="nvidia-t4", role="t4"))

    def test_the_budget_is_the_whole_workloads(self) -> None:
        assert not fits(free_node(3), demand(wants_whole(2), role="prefill"), demand(wants_whole(2), role="decode"))

    def test_a_workload_that_asks_for_nothing_fits_anywhere(self) -> None:
        assert fit([demand(pods=10**12)], on(free_node(0))) == Plan(())


class TestEligibility:
    def test_a_node_that_is_gone_serves_nothing(self) -> None:
        found = miss(fit([demand(wants_whole(), on="gone")], on(free_node(1))))
        assert (found.cause, found.message) == (Cause.NO_NODE, "node gone is gone")

    def test_a_node_serves_a_flavor_only_with_the_count_that_it_pins(self) -> None:
        pinned = demand(wants_whole(), card_count=4)
        assert fits(node(card(), counts={A10G: 4}), pinned)
        found = miss(fit([pinned], on(node(card(), counts={A10G: 8}))))
        assert found.message == f"node node-1 has 8 {A10G} accelerators, its flavor pins 4"
        assert not fits(free_node(1), pinned)

    def test_a_pinned_count_that_cannot_be_read_matches_nothing(self) -> None:
        assert not fits(node(card(), counts={A10G: 4}), demand(wants_whole(), card_count=UNREADABLE_COUNT))

    def test_cards_of_another_model_or_maker_do_not_serve(self) -> None:
        assert not fits(free_node(4), demand(wants_whole(), akey="nvidia-t4"))
        assert not fits(free_node(4), demand(wants_slice(10, manufacturer="hygon")))

    def test_a_demand_that_cannot_be_read_is_never_ready(self) -> None:
        unread = Demand("main", PodDemand((), (invalid("spec", "1e30", "is larger than any count can be"),)), 1, A10G)
        assert miss(fit([unread], on(free_node(1)))).cause is Cause.UNREADABLE

    def test_a_count_past_any_fleet_is_answered_at_once(self) -> None:
        assert not fits(free_node(8), demand(wants_slice(1), pods=2**62))


class TestMessages:
    def test_the_role_is_named_where_there_are_several(self) -> None:
        gpus = [card(index, group="a100") for index in range(6)]
        cards = node(
            *(held(gpus[i], whole()) for i in (0, 1, 3)),
            held(gpus[2], share(), share("b"), share("c")),
            gpus[4],
            held(gpus[5], a_slice(40)),
            name="gpu-7",
        )
        decode = demand(wants_whole(2), akey="nvidia-a100", on="gpu-7", role="decode")
        prefill = demand(wants_slice(10), akey="nvidia-a100", on="gpu-7", role="prefill")
        assert miss(fit([prefill, decode], on(cards))).message == (
            'role "decode": node gpu-7 needs 2 whole nvidia-a100 accelerators, 1 free '
            "(GPU-2 shared 3/10, GPU-5 sliced 40%)"
        )

    def test_all_pods_of_the_demand_are_counted(self) -> None:
        found = miss(fit([demand(wants_whole(2), pods=3)], on(free_node(5))))
        assert found.message == f"node node-1 needs 6 whole {A10G} accelerators, 5 free"

    def test_slices_are_counted_by_how_many_fit(self) -> None:
        cards = node(held(card(0), a_slice(50)), held(card(1), a_slice(60)))
        found = miss(fit([demand(wants_slice(45), pods=2)], on(cards)))
        assert found.message == (
            f"node node-1 needs 2 slices of 45% on {A10G} accelerators, room for 1 (GPU-0 sliced 50%, GPU-1 sliced 60%)"
        )

    def test_demands_that_fit_alone_but_not_together_say_so(self) -> None:
        found = miss(fit([demand(wants_whole(2), role="a"), demand(wants_whole(2), role="b")], on(free_node(3))))
        assert "1 free" in found.message
        assert found.message.endswith("with the rest of this Workload in place")

    @pytest.mark.parametrize(
        ("cards", "cause"),
        [
            (node(), Cause.NO_LEDGER),
            (node(card(group="a100-sxm4-80gb")), Cause.NO_PARTITIONED_CARD),
            (node(held(mig_card(), a_partition("7g.80gb", 0))), Cause.PROFILE_FULL),
        ],
    )
    def test_three_causes_of_a_missing_partition_stay_apart(self, cards: NodeCards, cause: Cause) -> None:
        assert miss(fit([demand(wants_partition("1g.10gb"), akey=A100)], on(cards))).cause is cause


class TestBound:
    def test_past_its_bound_the_search_holds_and_says_so(self) -> None:
        found = miss(fit(TIGHT, on(free_node(2)), bound=1))
        assert found.bounded
        assert found.message.endswith("; not every other placement was tried")


class TestWithoutNode:
    def test_a_pod_keeps_to_one_node(self) -> None:
        nodes = on(free_node(2, name="a"), free_node(2, name="b"))
        assert isinstance(fit([demand(wants_whole(2), pods=2, on=None)], nodes), Plan)
        assert isinstance(fit([demand(wants_whole(3), on=None)], nodes), Miss)

    def test_pods_of_different_size_are_spread_so_that_all_fit(self) -> None:
        # Packing in order puts the three on the first node, and then there is no room for the second two.
        nodes = on(free_node(4, name="a"), free_node(3, name="b"))
        wanted = [demand(wants_whole(n), pods=p, on=None, role=str(n)) for n, p in ((3, 1), (2, 2))]
        found = fit(wanted, nodes)
        assert isinstance(found, Plan)
        assert [placed.node for placed in found.pods] == ["b", "a", "a"]

    def test_only_nodes_with_the_pinned_count_are_used(self) -> None:
        nodes = on(node(card(), name="a", counts={A10G: 1}), node(card(1), card(2), name="b", counts={A10G: 2}))
        assert isinstance(fit([demand(wants_whole(2), on=None, card_count=2)], nodes), Plan)
        assert isinstance(fit([demand(wants_whole(), on=None, pods=2, card_count=1)], nodes), Miss)


# The oracle: every claim on every combination of cards, one after another, nothing clever. `just oracle` asks it often.

ORACLE_CASES = int(os.environ.get("ORACLE_CASES", "300"))

STRIP = (
    Profile("small", 10, 1, 1, 3, (Placement(0, 1), Placement(1, 1), Placement(2, 1))),
    Profile("even", 20, 1, 2, 2, (Placement(0, 2), Placement(2, 2))),
    Profile("big", 30, 2, 3, 1, (Placement(0, 3),)),
)


def possible(demands: Sequence[Demand], nodes: Mapping[str, NodeCards]) -> bool:
    pods = [each for each in demands for _ in range(each.pods)]
    return _place_all(pods, nodes)


def _place_all(pods: Sequence[Demand], nodes: Mapping[str, NodeCards]) -> bool:
    if not pods:
        return True
    first, rest = pods[0], pods[1:]
    for name in [first.node] if first.node else nodes:
        for after in _ways(first.pod.containers, first.akey, nodes[name], len(pods)):
            if _place_all(rest, {**nodes, name: after}):
                return True
    return False


def _ways(claims: Sequence[ContainerDemand], akey: str, cards: NodeCards, serial: int) -> Iterator[NodeCards]:
    if not claims:
        yield cards
        return
    claim, rest = claims[0], claims[1:]
    key = PodKey("", f"pod-{serial}", f"pod-{serial}")
    for chosen in _choices(claim, akey, cards):
        yield from _ways(rest, akey, with_choices(cards, key, chosen), serial)


def _choices(claim: ContainerDemand, akey: str, cards: NodeCards) -> Iterator[list[Choice]]:
    able = [state for state in cards.of(akey) if state.card.healthy and state.card.serves(claim.family)]
    if claim.family is Family.PARTITIONED:
        for state in able:
            for place in state.free_placements(claim.profile or ""):
                yield [Choice(claim.container, state.card, claim.family.mode, 1, claim.profile or "", place)]
        return
    fitting = [state for state in able if accepts(claim, state)]
    for states in itertools.combinations(fitting, claim.cards):
        yield [Choice(claim.container, state.card, claim.family.mode, claim.units) for state in states]


def _strip_card(index: int) -> CardState:
    return held(card(index, slots=0, partition_count=3, profiles=STRIP))


CARD_STATES = st.one_of(
    st.builds(lambda i, slots: held(card(i, slots=slots)), st.just(0), st.sampled_from([0, 2, 3])),
    st.builds(lambda used: held(card(0, slots=3), a_slice(used)), st.sampled_from([30, 40, 50, 70])),
    st.builds(lambda n: held(card(0), *(share(f"p{i}") for i in range(n))), st.integers(7, 10)),
    st.just(held(card(0), whole())),
    st.just(held(card(0, healthy=False))),
    st.just(_strip_card(0)),
)
CLAIMS = st.one_of(
    st.integers(1, 2).map(wants_whole),
    st.integers(1, 3).map(wants_share),
    st.sampled_from([20, 30, 35, 40, 50, 60, 65]).map(wants_slice),
    st.builds(lambda size: wants_slice(size, cards=2), st.sampled_from([30, 50])),
    st.sampled_from([profile.name for profile in STRIP]).map(wants_partition),
)
PODS = st.lists(CLAIMS, min_size=1, max_size=2)


def _numbered(states: Sequence[CardState], name: str) -> NodeCards:
    cards = [replace(state.card, id=f"{name}-{at}", index=at) for at, state in enumerate(states)]
    return node(*(held(own, *state.holdings) for own, state in zip(cards, states, strict=True)), name=name)


def _named(claims: Sequence[ContainerDemand]) -> list[ContainerDemand]:
    return [replace(claim, container=f"c{at}") for at, claim in enumerate(claims)]


def _replay(found: Plan, nodes: Mapping[str, NodeCards], order: Sequence[PlacedPod]) -> None:
    """The plan's Pods in this order: the allocator's own check accepts every one of them."""
    cards = dict(nodes)
    for serial, placed in enumerate(order):
        for container in {choice.container for choice in placed.choices}:
            chosen = [choice for choice in placed.choices if choice.container == container]
            claim = ContainerDemand(
                container, "running", _family(chosen[0]), "nvidia", len(chosen), chosen[0].units, chosen[0].profile
            )
            assert check(claim, [choice.card.id for choice in chosen], cards[placed.node]) is None
            for choice in chosen:
                if choice.placement:
                    state = cards[placed.node].get(choice.card.id)
                    assert state is not None
                    assert choice.placement in state.free_placements(choice.profile)
            key = PodKey("", f"{serial}", f"{serial}")
            cards[placed.node] = with_choices(cards[placed.node], key, chosen)


def _family(choice: Choice) -> Family:
    return next(family for family in Family if family.mode is choice.mode)


@settings(max_examples=ORACLE_CASES, deadline=None)
@given(
    st.lists(CARD_STATES, min_size=1, max_size=4),
    st.lists(st.tuples(PODS, st.integers(1, 3)), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_on_one_node_the_verdict_is_the_oracles(states, wanted, order) -> None:  # type: ignore[no-untyped-def]
    cards = on(_numbered(states, "node-1"))
    demands = [demand(*_named(claims), pods=pods, role=str(at)) for at, (claims, pods) in enumerate(wanted)]
    if sum(each.pods * len(each.pod.containers) for each in demands) > 6:
        demands = demands[:1]
    found = fit(demands, cards)
    assert isinstance(found, Plan) == possible(demands, cards)
    if isinstance(found, Plan):
        assert len(found.pods) == sum(each.pods for each in demands)
        shuffled = list(found.pods)
        order.shuffle(shuffled)
        _replay(found, cards, shuffled)


@settings(max_examples=ORACLE_CASES, deadline=None)
@given(
    st.lists(st.lists(CARD_STATES, min_size=1, max_size=3), min_size=2, max_size=3),
    st.lists(st.tuples(PODS, st.integers(1, 2), st.booleans()), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_over_several_nodes_the_verdict_is_the_oracles(fleet, wanted, order) -> None:  # type: ignore[no-untyped-def]
    nodes = on(*(_numbered(states, f"node-{at}") for at, states in enumerate(fleet)))
    demands = [
        demand(*_named(claims), pods=pods, role=str(at), on="node-0" if pinned else None)
        for at, (claims, pods, pinned) in enumerate(wanted)
    ]
    if sum(each.pods * len(each.pod.containers) for each in demands) > 5:
        demands = demands[:1]
    found = fit(demands, nodes)
    assert isinstance(found, Plan) == possible(demands, nodes)
    if isinstance(found, Plan):
        shuffled = list(found.pods)
        order.shuffle(shuffled)
        _replay(found, nodes, shuffled)
