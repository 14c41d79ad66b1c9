from gpustack_ctl.accel.cards import cards_of
from gpustack_ctl.accel.families import Family, Mode
from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.accel.units import M
from tests.unit.accel.builders import a_partition, a_slice, card, free_node, held, holder, mig_card, node, share, whole

SPEC = {
    "groups": [
        {
            "id": "a100-sxm4-80gb",
            "manufacturer": "nvidia",
            "memory": 81920,
            "accelerators": [
                {
                    "id": "GPU-b",
                    "index": 3,
                    "status": {
                        "logicalSliced": {"count": 0},
                        "physicalSliced": {
                            "count": 7,
                            "profiles": [
                                {
                                    "name": "3g.40gb",
                                    "memoryMib": 40192,
                                    "computeSlices": 3,
                                    "memorySlices": 4,
                                    "count": 2,
                                    "placements": [{"start": 0, "length": 4}, {"start": 4, "length": 4}],
                                }
                            ],
                        },
                    },
                }
            ],
        },
        {
            "id": "a10g",
            "manufacturer": "nvidia",
            "memory": 24576,
            "accelerators": [
                {"id": "GPU-d", "index": 1, "status": {"unhealthy": True, "logicalSliced": {"count": 128}}},
                {"id": "GPU-a", "index": 0, "topology": {"numaAffinity": "1-2"}, "status": {}},
            ],
        },
        {"id": "bw", "manufacturer": "hygon", "memory": 65536, "accelerators": [{"id": "DCU-0", "index": 0}]},
    ]
}


def test_cards_come_by_manufacturer_then_first_index_then_index() -> None:
    assert [read.id for read in cards_of(SPEC)] == ["DCU-0", "GPU-a", "GPU-d", "GPU-b"]


def test_a_card_is_read_with_its_health_numa_node_and_geometry() -> None:
    _, first, second, partitioned = cards_of(SPEC)
    assert (first.numa, first.healthy, first.slots, first.akey) == (1, True, 0, "nvidia-a10g")
    assert (second.numa, second.healthy, second.slots) == (None, False, 128)
    assert partitioned.profile("3g.40gb") is not None
    assert partitioned.profiles[0].placements == (Placement(0, 4), Placement(4, 4))


def test_a_partitioned_card_is_in_no_other_population() -> None:
    assert [family for family in Family if mig_card(slots=128).serves(family)] == [Family.PARTITIONED]


def test_a_card_without_slots_serves_whole_cards_and_shares_only() -> None:
    assert [family for family in Family if card(slots=0).serves(family)] == [Family.EXCLUSIVE, Family.SHARED]


def test_an_empty_spec_has_no_cards() -> None:
    assert cards_of({}) == ()


def test_a_slice_takes_its_units_and_a_slot() -> None:
    state = held(card(), a_slice(30), a_slice(20))
    assert (state.mode, state.allocated, state.remaining, state.slices) == (Mode.SLICED, M // 2, M // 2, 2)
    assert (state.percent_free, state.slots_free, state.shares_free) == (50, 126, 0)


def test_a_share_takes_a_tenth_and_leaves_nothing_to_slices() -> None:
    state = held(card(), share(), share("another"))
    assert (state.mode, state.shares_free, state.percent_free) == (Mode.SHARED, 8, 0)


def test_an_overcharged_card_has_nothing_left_and_never_less() -> None:
    state = held(card(), whole(), a_slice(50))
    assert (state.mode, state.allocated, state.remaining) == (Mode.EXCLUSIVE, M, 0)


def test_a_partition_occupies_its_interval() -> None:
    state = held(mig_card(), a_partition("3g.40gb", 4))
    assert state.remaining_profiles()["3g.40gb"] == 1
    assert state.remaining_profiles()["7g.80gb"] == 0
    assert state.allocated_profiles() == {"3g.40gb": 1}


def test_a_retry_does_not_see_its_own_holding() -> None:
    cards = node(held(card(), a_slice(30, "mine"), a_slice(20, "other")))
    assert cards.without(holder("mine").uid, "main").states[0].remaining == 80 * M // 100
    assert cards.without(holder("mine").uid, "sidecar") == cards


def test_adding_a_holding_leaves_the_node_before_as_it_was() -> None:
    before = free_node(2)
    after = before.with_holding("GPU-1", whole())
    assert [state.free for state in before.states] == [True, True]
    assert [state.free for state in after.states] == [True, False]
    assert after.with_holding("GPU-9", whole()) == after


def test_a_card_says_how_far_it_is_taken() -> None:
    assert held(card(2), share(), share("b"), share("c")).describe() == "GPU-2 shared 3/10"
    assert held(card(5), a_slice(40)).describe() == "GPU-5 sliced 40%"
    assert held(card(1), whole()).describe() == "GPU-1 held whole"
    assert held(card(1, healthy=False)).describe() == "GPU-1 unhealthy"
    assert held(mig_card(4), a_partition("3g.40gb", 4), a_partition("1g.10gb", 0)).describe() == (
        "GPU-4 partitioned 1×1g.10gb 1×3g.40gb"
    )
