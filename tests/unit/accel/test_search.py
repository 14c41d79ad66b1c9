"""The exact packing against searches that know no shortcut."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpustack_ctl.accel.search import Budget, Exhausted, pack
from gpustack_ctl.accel.units import PERCENT_UNITS
from tests.unit.accel.builders import (
    MIG,
    a_partition,
    a_slice,
    card,
    held,
    mig_card,
    wants_partition,
    wants_slice,
    wants_whole,
)

NAMES = [profile.name for profile in MIG]


def interval_by_interval(wanted: tuple[str, ...], occupied: tuple[int, ...]) -> bool:
    """Whether the profiles fit on the cards: each at every place of every card, one after another."""

    @cache
    def place(at: int, occupied: tuple[int, ...]) -> bool:
        if at == len(wanted):
            return True
        profile = MIG[NAMES.index(wanted[at])]
        return any(
            place(at + 1, tuple(sorted((*occupied[:on], taken | spot.mask, *occupied[on + 1 :]))))
            for on, taken in enumerate(occupied)
            for spot in profile.placements
            if not spot.mask & taken
        )

    return place(0, tuple(sorted(occupied)))


def _mig(index: int, starts: frozenset[int]):  # type: ignore[no-untyped-def]
    return held(mig_card(index), *(a_partition("1g.10gb", start) for start in starts))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.frozensets(st.integers(0, 6), max_size=4), min_size=1, max_size=3),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=9),
)
def test_partitions_fit_exactly_when_some_choice_of_intervals_fits(used, wanted) -> None:  # type: ignore[no-untyped-def]
    states = [_mig(index, starts) for index, starts in enumerate(used)]
    packed = pack(states, [wants_partition(name) for name in wanted], Budget(10**6))
    fits = interval_by_interval(tuple(sorted(wanted)), tuple(state.occupied for state in states))
    assert (packed is not None) == fits
    if packed is None:
        return
    taken = {state.card.id: state.occupied for state in states}
    for name, (choice,) in zip(wanted, packed, strict=True):
        assert choice.placement is not None
        assert choice.profile == name
        assert choice.placement in MIG[NAMES.index(name)].placements
        assert not taken[choice.card.id] & choice.placement.mask
        taken[choice.card.id] |= choice.placement.mask


def one_by_one(sizes: tuple[int, ...], rooms: tuple[tuple[int, int], ...]) -> bool:
    """Whether slices fit: each on every card, one after another."""

    @cache
    def place(at: int, rooms: tuple[tuple[int, int], ...]) -> bool:
        if at == len(sizes):
            return True
        return any(
            place(at + 1, tuple(sorted((*rooms[:on], (room - sizes[at], slots - 1), *rooms[on + 1 :]))))
            for on, (room, slots) in enumerate(rooms)
            if slots and sizes[at] <= room
        )

    return place(0, tuple(sorted(rooms)))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 4)), min_size=1, max_size=4),
    st.lists(st.integers(5, 70), min_size=1, max_size=10),
)
def test_slices_fit_exactly_when_some_choice_of_cards_fits(cards, sizes) -> None:  # type: ignore[no-untyped-def]
    states = [
        held(card(index, slots=slots + bool(used)), *([a_slice(used)] if used else []))
        for index, (used, slots) in enumerate(cards)
    ]
    packed = pack(states, [wants_slice(size) for size in sizes], Budget(10**6))
    rooms = tuple((state.remaining // PERCENT_UNITS, state.slots_free) for state in states)
    assert (packed is not None) == one_by_one(tuple(sorted(sizes, reverse=True)), rooms)
    if packed is None:
        return
    for state in states:
        mine = [size for size, (choice,) in zip(sizes, packed, strict=True) if choice.card.id == state.card.id]
        assert sum(mine) * PERCENT_UNITS <= state.remaining
        assert len(mine) <= state.slots_free


def test_a_claim_of_several_slices_gets_distinct_cards() -> None:
    states = [held(card(index)) for index in range(3)]
    packed = pack(states, [wants_slice(50, cards=2), wants_slice(50, cards=2), wants_slice(50, cards=2)], Budget(1000))
    assert packed is not None
    assert [len({choice.card.id for choice in choices}) for choices in packed] == [2, 2, 2]
    assert pack(states[:1], [wants_slice(10, cards=2)], Budget(1000)) is None


def test_a_whole_card_takes_the_card_that_slices_need_least() -> None:
    states = [held(card(0, slots=3)), held(card(1, slots=1))]
    packed = pack(states, [wants_whole(), *(wants_slice(10) for _ in range(3))], Budget(1000))
    assert packed is not None
    assert packed[0][0].card.id == "GPU-1"


def test_a_search_past_its_bound_gives_no_answer() -> None:
    with pytest.raises(Exhausted):
        pack([held(card(index)) for index in range(4)], [wants_slice(size) for size in range(20, 30)], Budget(3))
