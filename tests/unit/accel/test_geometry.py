from gpustack_ctl.accel.geometry import Placement, best_placement, free_count, free_placements, mask_of
from gpustack_ctl.accel.mig_models import mig_profiles

PROFILES = mig_profiles("a100-sxm4-80gb")
BY_NAME = {profile.name: profile for profile in PROFILES}


def test_an_empty_card_holds_each_profile_as_often_as_its_catalog_says() -> None:
    for profile in PROFILES:
        assert free_count(profile, 0) == profile.count


def test_three_free_slices_do_not_hold_two_partitions_that_start_at_even_slices() -> None:
    occupied = mask_of([Placement(0, 1), Placement(4, 4)])
    assert free_placements(BY_NAME["2g.20gb"], occupied) == (Placement(2, 2),)


def test_the_first_small_partition_goes_where_every_larger_profile_but_one_stays() -> None:
    # The lowest free slot would cost a 4g.40gb, a 2g.20gb and a 3g.40gb; the last slice costs one 3g.40gb only.
    assert best_placement(BY_NAME["1g.10gb"], PROFILES, 0) == Placement(6, 1)


def test_a_half_card_goes_to_the_upper_half_so_that_the_lower_one_can_be_a_4g() -> None:
    assert best_placement(BY_NAME["3g.40gb"], PROFILES, 0) == Placement(4, 4)


def test_a_full_card_has_no_placement() -> None:
    assert best_placement(BY_NAME["1g.10gb"], PROFILES, 0xFF) is None


def test_a_group_id_names_the_geometry_of_its_chip_and_memory() -> None:
    assert [profile.name for profile in mig_profiles("a30")] == ["1g.6gb", "2g.12gb", "4g.24gb"]
    assert mig_profiles("a100-pcie-40gb")[0].name == "1g.5gb"
    assert mig_profiles("h200")[-1].name == "7g.141gb"
    assert mig_profiles("a10g") == ()
