from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.accel.cards import CardState
from gpustack_ctl.accel.views import FourViews, PoolViews, contribution
from tests.unit.accel.builders import a_partition, a_slice, card, held, mig_card, share, whole


def views(*nodes: list[CardState]) -> FourViews:
    pool = PoolViews()
    for number, states in enumerate(nodes):
        pool.update(f"node-{number}", contribution(states))
    return pool.views()


def free(count: int) -> list[CardState]:
    return [held(card(index)) for index in range(count)]


def test_one_free_card() -> None:
    assert views(free(1)).printed == "1/1 1/10 100/100 0/0"


def test_after_a_slice_of_twenty_percent() -> None:
    assert views([held(card(), a_slice(20))]).printed == "0/0 0/0 80/80 0/0"


def test_one_request_cannot_span_two_nodes() -> None:
    assert views(free(1), free(4)).printed == "4/5 4/50 100/500 0/0"


def test_a_shared_card_has_shares_and_nothing_else() -> None:
    assert views([held(card(0), share()), held(card(1))]).printed == "1/1 2/19 100/100 0/0"


def test_a_whole_card_taken_is_gone_from_every_view_but_its_capacity() -> None:
    taken = views([held(card(), whole())])
    assert taken.printed == "0/0 0/0 0/0 0/0"
    assert [view.capacity for view in (taken.exclusive, taken.shared, taken.sliced)] == [1, 10, 100]


def test_a_card_without_a_free_slot_has_no_percent_left() -> None:
    full = held(card(manufacturer="hygon"), *(a_slice(10, f"pod-{n}") for n in range(4)))
    assert views([full]).printed == "0/0 0/0 0/0 0/0"


def test_an_unhealthy_card_is_capacity_without_room() -> None:
    unhealthy = views([held(card(healthy=False)), held(mig_card(1, healthy=False))])
    assert unhealthy.printed == "0/0 0/0 0/0 0/0"
    assert (unhealthy.exclusive.capacity, unhealthy.partitioned.capacity) == (1, 7)
    assert unhealthy.remaining_profiles["1g.10gb"] == 0


def test_a_partitioned_card_is_in_no_other_view() -> None:
    assert views([held(mig_card())]).printed == "0/0 0/0 0/0 1/7"


def test_one_last_instance_is_still_one_request() -> None:
    last = held(mig_card(), a_partition("4g.40gb", 0), *(a_partition("1g.10gb", start) for start in (4, 5)))
    assert views([last]).printed == "0/0 0/0 0/0 1/1"


def test_a_full_profile_is_listed_at_zero() -> None:
    pool = views([held(mig_card(), a_partition("3g.40gb", 4), a_partition("3g.40gb", 0))])
    assert set(pool.remaining_profiles.values()) == {0}
    assert len(pool.remaining_profiles) == 6
    assert pool.allocated_profiles == {"3g.40gb": 2}
    assert pool.printed == "0/0 0/0 0/0 0/0"


def test_partitions_are_printed_with_what_is_left_of_each() -> None:
    assert views([held(mig_card(), a_partition("4g.40gb", 0))]).partitions == (
        "1g.10gb=3 1g.20gb=2 2g.20gb=1 3g.40gb=1 4g.40gb=0 7g.80gb=0"
    )


def test_the_status_has_strings_and_listed_profiles() -> None:
    status = views([held(mig_card(), a_partition("7g.80gb", 0))]).status()
    assert status["accelerator"] == {"onceMaxRequest": "0", "remaining": "0", "capacity": "0"}
    assert status["acceleratorPartitioned"]["allocatedProfiles"] == [{"name": "7g.80gb", "count": 1}]
    assert status["acceleratorPartitioned"]["capacity"] == "7"


def test_an_update_that_changes_nothing_says_so() -> None:
    pool = PoolViews()
    assert pool.update("node-1", contribution(free(2)))
    assert not pool.update("node-1", contribution(free(2)))
    assert pool.update("node-1", None)
    assert not pool.update("node-1", None)
    assert pool.views() == FourViews()


STATES = st.sampled_from(
    [
        held(card()),
        held(card(), whole()),
        held(card(), share()),
        held(card(), a_slice(35)),
        held(card(healthy=False)),
        held(mig_card()),
        held(mig_card(), a_partition("3g.40gb", 4)),
        held(mig_card(), a_partition("7g.80gb", 0)),
    ]
)


@given(st.lists(st.tuples(st.integers(0, 4), st.none() | st.lists(STATES, max_size=4)), max_size=20))
def test_views_kept_step_by_step_equal_views_taken_afresh(steps: list[tuple[int, list[CardState] | None]]) -> None:
    pool, now = PoolViews(), {}
    for number, states in steps:
        pool.update(f"node-{number}", None if states is None else contribution(states))
        now[number] = states
    assert pool.views() == views(*(states for states in now.values() if states is not None))
