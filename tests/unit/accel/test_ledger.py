import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.ledger import Reservation, is_held, published, rebuild, status_of
from gpustack_ctl.accel.placement import choose, with_choices
from gpustack_ctl.accel.refusals import Refusal
from gpustack_ctl.accel.units import SHARE_UNITS, M, percentage_units
from tests.unit.accel.builders import (
    TABLE,
    card,
    choice,
    key_of,
    mig_card,
    node,
    pod,
    wants_partition,
    wants_share,
    wants_slice,
    wants_whole,
)

CARDS = (card(0), card(1), mig_card(2))


def test_a_node_without_pods_is_free() -> None:
    ledger = rebuild(CARDS, [], table=TABLE)
    assert [state.free for state in ledger.states] == [True] * 3
    assert (ledger.unreadable, ledger.unrecorded, ledger.overcharged, ledger.strays) == ((), (), (), ())


def test_each_mode_is_charged_by_its_own_rule() -> None:
    half = percentage_units(50)
    ledger = rebuild(
        (*CARDS, card(3)),
        [
            pod({"main": [choice(card(0), Mode.EXCLUSIVE, 1)]}),
            pod({"main": [choice(card(1), Mode.SHARED, 1)]}),
            pod({"main": [choice(mig_card(2), Mode.PARTITIONED, half, "3g.40gb", 4)]}),
            pod({"main": [choice(card(3), Mode.SLICED, half)]}),
        ],
        table=TABLE,
    )
    assert [state.allocated for state in ledger.states] == [M, SHARE_UNITS, half, half]
    assert [state.slices for state in ledger.states] == [0, 0, 0, 1]
    assert ledger.states[2].occupied == 0b11110000


def test_two_containers_of_one_pod_are_both_charged() -> None:
    claims = {"main": [choice(card(0), Mode.SHARED)], "helper": [choice(card(0), Mode.SHARED)]}
    assert rebuild(CARDS, [pod(claims)], table=TABLE).states[0].allocated == 2 * SHARE_UNITS


def test_an_init_container_is_charged_until_its_pod_is_gone() -> None:
    done = pod({"fetch": [choice(card(0), Mode.EXCLUSIVE)]}, init=["fetch"])
    assert not rebuild(CARDS, [done], table=TABLE).states[0].free


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_gives_back_what_ends_with_its_containers(phase: str) -> None:
    finished = [
        pod({"main": [choice(card(0), Mode.EXCLUSIVE)]}, phase=phase),
        pod({"main": [choice(card(1), Mode.SLICED, 1)]}, phase=phase),
    ]
    assert all(state.free for state in rebuild(CARDS, finished, table=TABLE).states)
    kept = rebuild(CARDS, finished, table=TABLE, release_terminated=False)
    assert [state.free for state in kept.states] == [False, False, True]


def test_a_finished_pod_keeps_its_partition() -> None:
    finished = pod({"main": [choice(mig_card(2), Mode.PARTITIONED, 1, "1g.10gb", 0)]}, phase="Succeeded")
    assert not rebuild(CARDS, [finished], table=TABLE).states[2].free


@pytest.mark.parametrize(("manufacturer", "free"), [("metax", False), ("cambricon", False), ("hygon", True)])
def test_a_finished_pod_keeps_a_slice_that_lives_in_the_driver(manufacturer: str, free: bool) -> None:
    sliced = card(0, manufacturer=manufacturer)
    finished = pod({"main": [choice(sliced, Mode.SLICED, 1)]}, asks={"main": "x"}, phase="Failed")
    assert rebuild([sliced], [finished], table=TABLE).states[0].free is free


def test_an_overcharged_card_is_clamped_and_reported() -> None:
    greedy = [pod({"main": [choice(card(0), Mode.SLICED, percentage_units(60))]}) for _ in range(2)]
    ledger = rebuild(CARDS, greedy, table=TABLE)
    assert ledger.states[0].remaining == 0
    assert [(report.card, report.reason) for report in ledger.overcharged] == [
        ("GPU-0", f"charged {percentage_units(120)} of {M} units")
    ]


def test_two_modes_on_one_card_are_reported() -> None:
    both = [pod({"main": [choice(card(0), mode, 1)]}) for mode in (Mode.SHARED, Mode.SLICED)]
    assert "several modes: shared, sliced" in rebuild(CARDS, both, table=TABLE).overcharged[0].reason


def test_overlapping_partitions_are_reported() -> None:
    both = [pod({"main": [choice(mig_card(2), Mode.PARTITIONED, 1, profile, 4)]}) for profile in ("3g.40gb", "1g.10gb")]
    assert [report.reason for report in rebuild(CARDS, both, table=TABLE).overcharged] == ["partitions overlap"]


def test_an_unreadable_record_holds_every_card_of_its_manufacturer() -> None:
    cards = (*CARDS, card(9, manufacturer="hygon", group="bw"))
    ledger = rebuild(cards, [pod("{broken")], table=TABLE)
    assert [state.remaining for state in ledger.states] == [0, 0, 0, M]
    assert sum(ledger.states[2].remaining_profiles().values()) == 0
    assert ledger.unreadable[0].manufacturers == ("nvidia",)
    assert ledger.unreadable[0].reason.startswith("is not JSON")
    assert ledger.overcharged == ()


def test_an_unreadable_record_beside_a_readable_one_is_no_overcharge() -> None:
    ledger = rebuild(CARDS, [pod("{broken"), pod({"main": [choice(card(0), Mode.SLICED, 1)]})], table=TABLE)
    assert ledger.states[0].remaining == 0
    assert ledger.overcharged == ()


def test_an_unreadable_record_on_a_pod_that_asks_for_nothing_holds_nothing() -> None:
    ledger = rebuild(CARDS, [pod("{broken", asks={"main": "cpu"})], table=TABLE)
    assert all(state.free for state in ledger.states)


def test_a_finished_pod_with_an_unreadable_record_may_still_hold_a_partition() -> None:
    finished = pod("{broken", asks={"main": "nvidia.com/gpu.partitioned"}, phase="Succeeded")
    assert not rebuild(CARDS, [finished], table=TABLE).states[2].free
    whole = pod("{broken", asks={"main": "nvidia.com/gpu"}, phase="Succeeded")
    assert rebuild(CARDS, [whole], table=TABLE).states[2].free


def test_the_agents_own_knowledge_mends_an_unreadable_record() -> None:
    broken = pod("{broken", asks={"main": "nvidia.com/gpu"})
    promise = Reservation(key_of(broken), "main", (choice(card(1), Mode.EXCLUSIVE).entry(),))
    ledger = rebuild(CARDS, [broken], table=TABLE, reservations=[promise])
    assert [state.free for state in ledger.states] == [True, False, True]
    assert ledger.unreadable == ()


def test_a_reservation_stands_in_for_the_containers_record() -> None:
    moved = pod({"main": [choice(card(0), Mode.EXCLUSIVE)]})
    promise = Reservation(key_of(moved), "main", (choice(card(1), Mode.EXCLUSIVE).entry(),))
    ledger = rebuild(CARDS, [moved], table=TABLE, reservations=[promise])
    assert [state.free for state in ledger.states] == [True, False, True]


def test_a_reservation_counts_before_its_pod_is_seen() -> None:
    promise = Reservation(PodKey("team", "new", "uid-new"), "main", (choice(card(0), Mode.EXCLUSIVE).entry(),))
    assert not rebuild(CARDS, [], table=TABLE, reservations=[promise]).states[0].free


def test_a_pod_that_asks_and_has_nothing_recorded_is_reported() -> None:
    waiting = pod(asks={"main": "nvidia.com/gpu", "log": "cpu"}, name="waiting")
    ledger = rebuild(CARDS, [waiting], table=TABLE)
    assert [(report.pod.name, report.containers) for report in ledger.unrecorded] == [("waiting", ("main",))]


def test_a_finished_pod_is_not_reported_as_unrecorded() -> None:
    assert rebuild(CARDS, [pod(asks={"main": "nvidia.com/gpu"}, phase="Failed")], table=TABLE).unrecorded == ()


def test_a_pod_that_asks_for_zero_asks_for_nothing() -> None:
    nothing = pod(asks={"main": "nvidia.com/gpu"})
    nothing["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "0"}}
    assert rebuild(CARDS, [nothing], table=TABLE).unrecorded == ()
    assert is_held(nothing, TABLE)


def test_a_card_that_the_node_no_longer_has_is_reported() -> None:
    ledger = rebuild(CARDS, [pod({"main": [choice(card(9), Mode.EXCLUSIVE)]}, name="stray")], table=TABLE)
    assert [(report.pod.name, report.card) for report in ledger.strays] == [("stray", "GPU-9")]


def test_a_pod_is_held_once_every_container_that_asks_is_named() -> None:
    asks = {"main": "nvidia.com/gpu.shared", "helper": "nvidia.com/gpu.shared", "log": "cpu"}
    one = {"main": [choice(card(0), Mode.SHARED)]}
    both = one | {"helper": [choice(card(0), Mode.SHARED)]}
    assert not is_held(pod(one, asks=asks), TABLE)
    assert is_held(pod(both, asks=asks), TABLE)
    assert not is_held(pod("{broken", asks=asks), TABLE)


def test_the_status_is_what_the_contract_says() -> None:
    pods = [
        pod({"main": [choice(card(0), Mode.SLICED, percentage_units(50))]}),
        pod({"main": [choice(mig_card(2), Mode.PARTITIONED, 785000, "3g.40gb", 4)]}),
    ]
    status = status_of(rebuild(CARDS, pods, table=TABLE))
    assert status["groups"][0] == {
        "id": "a10g",
        "manufacturer": "nvidia",
        "accelerators": [
            {"id": "GPU-0", "index": 0, "mode": 3, "allocated": 800000, "remaining": 800000, "allocatedSlices": 1},
            {"id": "GPU-1", "index": 1, "mode": 0, "allocated": 0, "remaining": M, "allocatedSlices": 0},
        ],
    }
    partitioned = status["groups"][1]["accelerators"][0]
    assert partitioned["allocatedProfiles"] == [{"name": "3g.40gb", "count": 1}]
    assert {"name": "7g.80gb", "count": 0} in partitioned["remainingProfiles"]


def _devices(status: dict[str, Any] | None) -> dict[str, Any]:
    accelerators = [{"id": "GPU-0", "index": 0, "status": {"logicalSliced": {"count": 128}}}]
    profile = {"name": "3g.40gb", "memoryMib": 40192, "count": 2}
    cut = {"physicalSliced": {"count": 7, "profiles": [profile, profile | {"name": "7g.80gb", "count": 1}]}}
    spec = {
        "groups": [
            {"id": "a10g", "manufacturer": "nvidia", "memory": 24576, "accelerators": accelerators},
            {"id": "a100", "manufacturer": "nvidia", "accelerators": [{"id": "GPU-1", "index": 1, "status": cut}]},
        ]
    }
    return {"spec": spec} | ({"status": status} if status else {})


def test_a_card_without_a_published_row_reads_as_its_catalog_ceiling() -> None:
    fresh, cut = published(_devices(None))
    assert (fresh.free, fresh.percent_free) == (True, 100)
    assert cut.remaining_profiles() == {"3g.40gb": 2, "7g.80gb": 1}


def test_a_profile_that_a_published_row_does_not_carry_is_full() -> None:
    one = [{"name": "3g.40gb", "count": 1}]
    row = {"id": "GPU-1", "index": 1, "mode": 4, "allocated": 785000, "remaining": M - 785000}
    row |= {"allocatedProfiles": one, "remainingProfiles": one}
    status = {"groups": [{"id": "a100", "manufacturer": "nvidia", "accelerators": [row]}]}
    _, cut = published(_devices(status))
    assert cut.remaining_profiles() == {"3g.40gb": 1, "7g.80gb": 0}
    assert cut.allocated_profiles() == {"3g.40gb": 1}


def test_a_row_older_than_the_cards_partitions_reads_as_the_catalog_ceiling() -> None:
    row = {"id": "GPU-1", "index": 1, "mode": 0, "allocated": 0, "remaining": M}
    status = {"groups": [{"id": "a100", "manufacturer": "nvidia", "accelerators": [row]}]}
    assert published(_devices(status))[1].remaining_profiles() == {"3g.40gb": 2, "7g.80gb": 1}


CLAIMS = st.one_of(
    st.integers(1, 3).map(wants_whole),
    st.integers(1, 3).map(wants_share),
    st.integers(1, 100).map(wants_slice),
    st.sampled_from(["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "7g.80gb"]).map(wants_partition),
)


@given(st.lists(CLAIMS, max_size=30), st.randoms(use_true_random=False))
def test_rebuilding_what_was_allocated_gives_the_same_ledger_in_any_order(claims: list, order: random.Random) -> None:
    cards = (*(card(index) for index in range(4)), mig_card(4), mig_card(5))
    allocated, pods = node(*cards), []
    for claim in claims:
        chosen = choose(claim, allocated)
        if isinstance(chosen, Refusal):
            continue
        pods.append(pod({"main": chosen}))
        allocated = with_choices(allocated, key_of(pods[-1]), chosen)
    first = rebuild(cards, pods, table=TABLE)
    order.shuffle(pods)
    second = rebuild(cards, pods, table=TABLE)
    assert first == second
    assert orjson.dumps(status_of(first)) == orjson.dumps(status_of(second))
    assert (first.overcharged, first.unrecorded, first.strays) == ((), (), ())
    for was, now in zip(allocated.states, first.states, strict=True):
        assert (was.mode, was.charged, was.slices, was.occupied) == (now.mode, now.charged, now.slices, now.occupied)
        assert set(was.holdings) == set(now.holdings)
