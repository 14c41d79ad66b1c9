import pytest

from gpustack_ctl.accel.capacity import capacity_keys, capacity_patch, counting_keys
from tests.unit.accel.builders import TABLE, a_partition, a_slice, card, held, mig_card

SLICED = {"nvidia.com/gpu": "2", "nvidia.com/gpu.sliced": "256"}


def test_sliceable_cards_count_in_units_percent_and_mib() -> None:
    cards = [held(card(0), a_slice(20)), held(card(1)), held(card(2, slots=0))]
    assert capacity_keys(cards, advertised=SLICED, table=TABLE) == {
        "nvidia.com/gpu.sliced.units": "3200000",
        "nvidia.com/gpu.sliced.cores-percentage": "25600",
        "nvidia.com/gpu.sliced.memory-percentage": "200",
        "nvidia.com/gpu.sliced.memory-mib": "49152",
    }


def test_compute_that_cannot_be_overcommitted_counts_once_per_card() -> None:
    cards = [held(card(manufacturer="hygon")), held(card(manufacturer="hygon"))]
    wanted = capacity_keys(cards, advertised={"hygon.com/dcu.sliced": "8"}, table=TABLE)
    assert wanted["hygon.com/dcu.sliced.cores-percentage"] == "200"


def test_a_profile_counts_what_is_held_and_what_still_fits() -> None:
    cards = [held(mig_card(0), a_partition("4g.40gb", 0)), held(mig_card(1))]
    wanted = capacity_keys(cards, advertised={"nvidia.com/gpu.partitioned": "9"}, table=TABLE)
    assert wanted["nvidia.com/gpu.partitioned.units"] == "3200000"
    assert wanted["nvidia.com/gpu.partitioned.mig-4g.40gb"] == "2"
    assert wanted["nvidia.com/gpu.partitioned.mig-3g.40gb"] == "3"
    assert wanted["nvidia.com/gpu.partitioned.mig-7g.80gb"] == "1"


@pytest.mark.parametrize("tokens", [None, "0", "", "many"])
def test_a_family_whose_tokens_are_not_advertised_counts_nothing(tokens: str | None) -> None:
    advertised = {} if tokens is None else {"nvidia.com/gpu.sliced": tokens}
    assert capacity_keys([held(card())], advertised=advertised, table=TABLE) == {}


def test_only_counting_keys_are_ours_to_change() -> None:
    capacity = SLICED | {
        "cpu": "8",
        "nvidia.com/gpu.shared": "20",
        "nvidia.com/gpu.sliced.units": "1",
        "nvidia.com/gpu.partitioned": "7",
        "nvidia.com/gpu.partitioned.mig-1g.10gb": "7",
        "device.gpustack.ai/nvidia.visibility": "512",
        "example.com/thing": "1",
    }
    assert counting_keys(capacity, TABLE).keys() == {
        "nvidia.com/gpu.sliced.units",
        "nvidia.com/gpu.partitioned.mig-1g.10gb",
    }


def test_a_patch_writes_what_differs_and_removes_what_is_stale() -> None:
    assert capacity_patch({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == {"b": "2", "c": None}
    assert capacity_patch({"a": "1"}, {"a": "1"}) == {}


def test_an_amount_that_the_api_server_spells_otherwise_is_not_written_again() -> None:
    assert capacity_patch({"a": "12800000"}, {"a": "12800k"}) == {}
