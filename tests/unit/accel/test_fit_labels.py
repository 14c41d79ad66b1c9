from gpustack_ctl.accel.fit_labels import fit_labels
from gpustack_ctl.accel.units import percentage_units
from tests.unit.accel.builders import a_slice, card, held, mig_card, share, whole

SLICED = "sliced-max-free-units.fit.gpustack.ai/nvidia-a10g"
SHARED = "shared-free-cards.fit.gpustack.ai/nvidia-a10g"


def test_the_freest_card_counts_and_not_the_sum() -> None:
    cards = [held(card(0), a_slice(50)), held(card(1), a_slice(60)), held(card(2), whole())]
    assert fit_labels(cards) == {SLICED: str(percentage_units(50)), SHARED: "0"}


def test_cards_with_a_free_share_are_counted_once_each() -> None:
    full = held(card(2), *(share(f"pod-{number}") for number in range(10)))
    assert fit_labels([held(card(0)), held(card(1), share()), full])[SHARED] == "2"


def test_a_card_without_a_slot_has_no_units_to_offer() -> None:
    hygon = card(manufacturer="hygon", group="bw")
    labels = fit_labels([held(hygon, *(a_slice(10, f"pod-{number}") for number in range(4)))])
    assert labels["sliced-max-free-units.fit.gpustack.ai/hygon-bw"] == "0"


def test_a_shared_card_offers_no_units() -> None:
    assert fit_labels([held(card(), share())])[SLICED] == "0"


def test_unhealthy_and_partitioned_cards_offer_nothing() -> None:
    assert fit_labels([held(mig_card()), held(card(healthy=False))]) == {}


def test_a_model_that_cannot_be_sliced_has_no_slice_label() -> None:
    assert fit_labels([held(card(slots=0))]) == {SHARED: "1"}
