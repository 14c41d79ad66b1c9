import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.accel.cards import NodeCards
from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.accel.placement import Choice, Planned, check, choices, choose, with_choices
from gpustack_ctl.accel.refusals import Cause, Refusal
from gpustack_ctl.accel.requests import ContainerDemand
from gpustack_ctl.accel.units import M
from tests.unit.accel.builders import (
    a_partition,
    a_slice,
    card,
    free_node,
    held,
    holder,
    mig_card,
    node,
    share,
    wants_partition,
    wants_share,
    wants_slice,
    wants_whole,
    whole,
)


def ids(chosen: tuple[Choice, ...] | Refusal) -> list[str]:
    assert not isinstance(chosen, Refusal), chosen
    return [choice.card.id for choice in chosen]


def refusal(chosen: tuple[Choice, ...] | Refusal | None) -> Refusal:
    assert isinstance(chosen, Refusal)
    return chosen


class TestPackingOrder:
    def test_a_slice_goes_to_the_fullest_card_that_still_fits_it(self) -> None:
        cards = node(card(0), held(card(1), a_slice(20)), held(card(2), a_slice(50)), held(card(3), a_slice(80)))
        assert ids(choose(wants_slice(50), cards)) == ["GPU-2"]
        assert ids(choose(wants_slice(60), cards)) == ["GPU-1"]
        assert ids(choose(wants_slice(90), cards)) == ["GPU-0"]

    def test_equally_full_cards_are_taken_by_index(self) -> None:
        assert ids(choose(wants_slice(50), node(held(card(0), a_slice(30)), held(card(1), a_slice(30))))) == ["GPU-0"]

    def test_two_thirty_percent_slices_share_a_free_card(self) -> None:
        cards = free_node(2)
        cards = with_choices(cards, holder("first"), _chosen(choose(wants_slice(30), cards)))
        assert ids(choose(wants_slice(30), cards)) == ["GPU-0"]

    def test_a_share_goes_to_shared_cards_before_free_ones(self) -> None:
        cards = node(card(0), held(card(1), share()), held(card(2), share(), share("b")))
        assert ids(choose(wants_share(3), cards)) == ["GPU-1", "GPU-2", "GPU-0"]

    def test_whole_cards_come_from_the_smallest_numa_node_that_has_them_all(self) -> None:
        numa = (0, 0, 0, 1, 1, 1, 1)
        cards = node(*(card(index, numa=near) for index, near in enumerate(numa)))
        assert ids(choose(wants_whole(2), cards)) == ["GPU-0", "GPU-1"]
        assert ids(choose(wants_whole(4), cards)) == ["GPU-3", "GPU-4", "GPU-5", "GPU-6"]
        assert ids(choose(wants_whole(5), cards))[:4] == ["GPU-3", "GPU-4", "GPU-5", "GPU-6"]

    def test_a_partition_goes_to_the_fullest_card_where_it_spares_the_larger_profiles(self) -> None:
        cards = node(mig_card(0), held(mig_card(1), a_partition("3g.40gb", 4)))
        chosen = _chosen(choose(wants_partition("1g.10gb"), cards))
        assert (chosen[0].card.id, chosen[0].placement) == ("GPU-1", Placement(0, 1))

    def test_several_instances_of_one_container_do_not_overlap(self) -> None:
        chosen = _chosen(choose(wants_partition("3g.40gb", cards=3), node(mig_card(0), mig_card(1))))
        assert [(c.card.id, c.placement) for c in chosen] == [
            ("GPU-0", Placement(4, 4)),
            ("GPU-0", Placement(0, 4)),
            ("GPU-1", Placement(4, 4)),
        ]

    def test_an_unhealthy_card_is_never_chosen(self) -> None:
        for claim in (wants_whole(), wants_share(), wants_slice(10)):
            assert ids(choose(claim, node(card(0, healthy=False), card(1)))) == ["GPU-1"]

    def test_only_cards_that_the_kubelet_offers_are_chosen(self) -> None:
        assert ids(choose(wants_whole(2), free_node(4), offered={"GPU-1", "GPU-3"})) == ["GPU-1", "GPU-3"]
        assert refusal(choose(wants_whole(3), free_node(4), offered={"GPU-1", "GPU-3"})).cause is Cause.NO_CARDS

    def test_only_cards_of_the_wanted_model_are_chosen(self) -> None:
        cards = node(card(0, group="t4"), card(1))
        assert ids(choose(wants_whole(), cards, akey="nvidia-a10g")) == ["GPU-1"]

    def test_no_family_but_partitions_lands_on_a_partitioned_card(self) -> None:
        for claim in (wants_whole(), wants_share(), wants_slice(10)):
            assert isinstance(choose(claim, node(mig_card(0))), Refusal)


class TestPlans:
    def test_the_pods_own_plan_comes_before_the_packing_order(self) -> None:
        cards = node(held(card(0), a_slice(50)), card(1))
        assert ids(choose(wants_slice(30), cards, prefer=[Planned("GPU-1")])) == ["GPU-1"]

    def test_a_plan_that_no_longer_holds_is_followed_as_far_as_it_does(self) -> None:
        cards = node(held(card(0), whole()), card(1), card(2))
        assert ids(choose(wants_whole(2), cards, prefer=[Planned("GPU-0"), Planned("GPU-2")])) == ["GPU-2", "GPU-1"]
        assert ids(choose(wants_whole(), cards, prefer=[Planned("GPU-7")])) == ["GPU-1"]

    def test_cards_planned_for_others_are_given_away_last(self) -> None:
        cards = free_node(3)
        others = [Planned("GPU-0"), Planned("GPU-1")]
        assert ids(choose(wants_whole(), cards, avoid=others)) == ["GPU-2"]
        assert ids(choose(wants_whole(2), cards, avoid=others)) == ["GPU-2", "GPU-0"]

    def test_a_planned_partition_takes_its_planned_interval(self) -> None:
        cards = node(mig_card(0), mig_card(1))
        chosen = _chosen(choose(wants_partition("3g.40gb"), cards, prefer=[Planned("GPU-1", "3g.40gb", 0)]))
        assert (chosen[0].card.id, chosen[0].placement) == ("GPU-1", Placement(0, 4))

    def test_an_interval_planned_for_others_is_left_to_them(self) -> None:
        chosen = _chosen(choose(wants_partition("3g.40gb"), node(mig_card()), avoid=[Planned("GPU-0", "3g.40gb", 4)]))
        assert chosen[0].placement == Placement(0, 4)


class TestRefusals:
    def test_the_message_counts_what_is_there_and_names_the_nearest_cards(self) -> None:
        shared = held(card(2, group="a100"), share(), share("b"), share("c"))
        cards = node(card(0, group="a100"), shared, held(card(5, group="a100"), a_slice(40)))
        refused = refusal(choose(wants_whole(2), cards, akey="nvidia-a100"))
        assert refused.message == (
            "needs 2 whole nvidia-a100 accelerators, 1 free (GPU-2 shared 3/10, GPU-5 sliced 40%)"
        )

    def test_three_causes_of_a_missing_partition_stay_apart(self) -> None:
        asked = wants_partition("3g.40gb")
        full = held(mig_card(), a_partition("7g.80gb", 0))
        causes = [refusal(choose(asked, cards)).cause for cards in (node(), node(card()), node(full))]
        assert causes == [Cause.NO_LEDGER, Cause.NO_PARTITIONED_CARD, Cause.PROFILE_FULL]

    def test_an_unknown_profile_is_refused_with_what_is_offered(self) -> None:
        refused = refusal(choose(wants_partition("5g.50gb"), node(mig_card())))
        assert refused.cause is Cause.PROFILE_UNKNOWN
        assert "its cards offer 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb" in refused.message


class TestCheck:
    def test_a_card_that_another_mode_holds_is_refused_by_name(self) -> None:
        cards = node(held(card(0), share("llm-0")))
        for claim in (wants_whole(), wants_slice(10)):
            refused = refusal(check(claim, ["GPU-0"], cards))
            assert refused.cause is Cause.HELD
            assert refused.message.startswith("GPU-0 shared 1/10 (by team/llm-0): ")

    def test_two_tokens_of_one_card_are_refused_for_a_shared_request(self) -> None:
        assert refusal(check(wants_share(2), ["GPU-0", "GPU-0"], free_node(2))).cause is Cause.SAME_CARD_TWICE
        assert check(wants_share(2), ["GPU-0", "GPU-1"], free_node(2)) is None

    def test_a_slice_needs_a_slot(self) -> None:
        full = held(card(0, manufacturer="hygon"), *(a_slice(10, f"pod-{n}") for n in range(4)))
        refused = refusal(check(wants_slice(10, manufacturer="hygon"), ["GPU-0"], node(full)))
        assert refused.cause is Cause.NO_SLOT
        assert refused.message == "GPU-0 hosts 4 of 4 slices: no slot is left on it"

    def test_a_slice_needs_its_units(self) -> None:
        cards = node(held(card(0), a_slice(70)))
        assert check(wants_slice(30), ["GPU-0"], cards) is None
        refused = refusal(check(wants_slice(31), ["GPU-0"], cards))
        assert refused.message == "GPU-0 has 30% of its memory left, the slice needs 31%"

    def test_the_slice_gate_can_be_switched_off(self) -> None:
        assert check(wants_slice(31), ["GPU-0"], node(held(card(0), a_slice(70))), slice_gate=False) is None

    @pytest.mark.parametrize(
        ("ids", "cause"),
        [
            (["GPU-7"], Cause.UNKNOWN_CARD),
            (["GPU-1"], Cause.UNHEALTHY),
            (["GPU-2"], Cause.WRONG_POPULATION),
            (["GPU-0", "GPU-3"], Cause.WRONG_COUNT),
        ],
    )
    def test_a_card_that_cannot_serve_at_all_is_refused(self, ids: list[str], cause: Cause) -> None:
        cards = node(card(0), card(1, healthy=False), mig_card(2), card(3))
        assert refusal(check(wants_whole(), ids, cards)).cause is cause

    def test_partition_tokens_are_only_a_quantity(self) -> None:
        assert check(wants_partition("1g.10gb"), ["anything"], node(mig_card())) is None


CLAIMS = st.one_of(
    st.integers(1, 4).map(wants_whole),
    st.integers(1, 4).map(wants_share),
    st.integers(1, 100).map(wants_slice),
    st.sampled_from(["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]).map(wants_partition),
)


@given(st.lists(CLAIMS, max_size=60))
def test_packing_never_oversubscribes_and_always_passes_its_own_check(claims: list[ContainerDemand]) -> None:
    cards = node(*(card(index, slots=6) for index in range(4)), mig_card(4), mig_card(5))
    for number, claim in enumerate(claims):
        chosen = choose(claim, cards)
        if isinstance(chosen, Refusal):
            continue
        assert len(chosen) == claim.cards
        assert check(claim, [choice.card.id for choice in chosen], cards) is None
        cards = with_choices(cards, holder(f"pod-{number}"), chosen)
        _assert_sound(cards)


def _assert_sound(cards: NodeCards) -> None:
    for state in cards.states:
        assert state.charged <= M
        assert len({holding.mode for holding in state.holdings}) <= 1
        assert state.slices <= state.card.slots
        masks = [placement.mask for holding in state.holdings for placement in holding.placements]
        assert sum(mask.bit_count() for mask in masks) == state.occupied.bit_count()


def test_checked_cards_become_choices_in_the_order_given() -> None:
    made = choices(wants_whole(2), ["GPU-1", "GPU-0"], free_node(2))
    assert [choice.card.id for choice in made] == ["GPU-1", "GPU-0"]


def _chosen(found: tuple[Choice, ...] | Refusal) -> tuple[Choice, ...]:
    assert not isinstance(found, Refusal), found
    return found
