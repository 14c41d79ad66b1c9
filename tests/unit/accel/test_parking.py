"""Which waiting Workloads are let go: every split that Kueue may choose fits, and no room is given away twice."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from gpustack_ctl.accel.feasibility import Demand, Plan, fit
from gpustack_ctl.accel.parking import Asked, Lot, Room, Waiting, soonest
from gpustack_ctl.accel.requests import ContainerDemand
from tests.unit.accel.builders import A10G, a_slice, card, demand, free_node, held, node, wants_slice, wants_whole

LARGE = 64


def waits(
    key: str,
    *claims: ContainerDemand,
    pods: int = 1,
    tokens: int = 0,
    reserved: tuple[str, ...] = (),
    overdue: bool = False,
    uncounted: bool = False,
) -> Waiting:
    """`tokens`: how much of the node's one countable resource each Pod takes."""
    asked = Asked("main", demand(*claims).pod, pods, (("tokens", tokens),) if tokens else ())
    return Waiting(key=key, akey=A10G, asked=(asked,), reserved=reserved, overdue=overdue, uncounted=uncounted)


def room(name: str, *used: int, tokens: int = LARGE) -> Room:
    """A node whose cards are sliced by so many percent."""
    states = [held(card(at), a_slice(percent)) if percent else card(at) for at, percent in enumerate(used)]
    return Room(node(*states, name=name), {"tokens": tokens}, {"tokens": LARGE})


def rooms(*each: Room) -> dict[str, Room]:
    return {found.cards.node: found for found in each}


def test_a_workload_waits_where_no_node_takes_it() -> None:
    spots = Lot().let_go([waits("w", wants_whole())], rooms(room("a", 50, 50), room("b", 1)))
    assert spots["w"].parked


def test_a_workload_is_let_go_onto_the_nodes_that_take_it() -> None:
    spots = Lot().let_go([waits("w", wants_whole())], rooms(room("a", 50, 50), room("b", 0, 50), room("c", 50)))
    assert (spots["w"].nodes, spots["w"].excluded) == (("b",), None)


def test_where_most_nodes_fit_the_others_are_named() -> None:
    spots = Lot().let_go([waits("w", wants_whole())], rooms(room("a", 0), room("b", 0), room("c", 50)))
    assert (spots["w"].nodes, spots["w"].excluded) == ((), ("c",))


def test_no_more_are_let_go_than_there_is_room_for_the_most_urgent_first() -> None:
    waiting = [waits("first", wants_whole()), waits("second", wants_whole()), waits("third", wants_whole())]
    spots = Lot().let_go(waiting, rooms(room("a", 0), room("b", 0)))
    assert [spots[key].parked for key in ("first", "second", "third")] == [False, False, True]


def test_a_smaller_one_goes_where_a_larger_one_cannot() -> None:
    waiting = [waits("large", wants_whole(2)), waits("small", wants_slice(50))]
    spots = Lot().let_go(waiting, rooms(room("a", 50), room("b", 20, 20)))
    assert spots["large"].parked
    assert not spots["small"].parked


def test_a_node_that_could_be_sent_more_than_it_takes_is_not_named() -> None:
    """Two Pods of one whole card: Kueue sees tokens for both on node a, which has one card free."""
    pair = waits("pair", wants_whole(), pods=2, tokens=1)
    assert Lot().let_go([pair], rooms(room("a", 0, 50), room("b", 0, 0)))["pair"].nodes == ("b",)
    one_each = waits("pair", wants_whole(), pods=2, tokens=LARGE)
    spots = Lot().let_go([one_each], rooms(room("a", 0, 50), room("b", 0, 0)))
    assert (spots["pair"].nodes, spots["pair"].excluded) == ((), ())


def test_too_few_nodes_for_all_pods_are_none() -> None:
    three = waits("three", wants_whole(), pods=3, tokens=LARGE)
    assert Lot().let_go([three], rooms(room("a", 0), room("b", 0)))["three"].parked


def test_one_that_was_let_go_and_not_placed_takes_no_room_from_the_next() -> None:
    waiting = [waits("stuck", wants_whole(), uncounted=True), waits("next", wants_whole())]
    assert not Lot().let_go(waiting, rooms(room("a", 0)))["next"].parked


def test_a_node_that_changes_is_looked_at_again() -> None:
    lot, waiting = Lot(), [waits("w", wants_whole())]
    assert lot.let_go(waiting, rooms(room("a", 50)))["w"].parked
    assert not lot.let_go(waiting, rooms(room("a", 0)))["w"].parked
    assert lot.let_go(waiting, rooms(room("a", 50)))["w"].parked


def test_one_that_waited_too_long_keeps_the_node_that_is_free_soonest_from_those_behind_it() -> None:
    fleet = rooms(room("a", 50, 50), room("b", 10, 0), room("c", 90, 90))
    waiting = [
        waits("before", wants_slice(20)),
        waits("large", wants_whole(2), overdue=True),
        waits("also", wants_whole(2), overdue=True),
        waits("behind", wants_slice(20)),
    ]
    spots = Lot().let_go(waiting, fleet)
    assert spots["large"].reserved == ("b",)
    assert spots["also"].reserved == ()
    assert spots["before"].nodes == () and spots["before"].excluded == ("c",)
    assert spots["behind"].nodes == ("a",)


def test_what_is_kept_stays_kept_until_its_workload_is_placed() -> None:
    fleet = rooms(room("a", 50, 50), room("b", 0, 0))
    spots = Lot().let_go([waits("large", wants_whole(2), reserved=("a",)), waits("next", wants_slice(20))], fleet)
    assert spots["large"].reserved == ("a",)
    assert spots["large"].nodes == ("b",)
    assert spots["next"].parked


def test_nodes_are_kept_only_where_the_workload_could_ever_run() -> None:
    assert soonest(waits("w", wants_whole(3)), rooms(room("a", 50, 50))) == ()
    assert soonest(waits("w", wants_whole(2), pods=2, tokens=LARGE), rooms(room("a", 50, 50), room("b", 0, 0))) == (
        "b",
        "a",
    )


def test_more_waiting_than_can_ever_fit_costs_one_look() -> None:
    fleet = rooms(*(room(f"n{number}", 50, 50) for number in range(50)))
    spots = Lot().let_go([waits(f"w{number}", wants_whole()) for number in range(500)], fleet)
    assert all(spot.parked for spot in spots.values())


_used = st.lists(st.sampled_from((0, 20, 50, 80)), min_size=1, max_size=3)
_claims = st.sampled_from((wants_whole(), wants_slice(30), wants_slice(60), wants_whole(2)))


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(_used, st.integers(1, 3)), min_size=1, max_size=3),
    st.lists(st.tuples(_claims, st.integers(1, 3)), min_size=1, max_size=2),
)
def test_every_split_under_a_pin_fits(
    nodes: list[tuple[list[int], int]], roles: list[tuple[ContainerDemand, int]]
) -> None:
    """All the ways in which Kueue, that counts one token per Pod, may spread the Pods over the nodes of the pin."""
    fleet = rooms(*(room(f"n{at}", *used, tokens=tokens) for at, (used, tokens) in enumerate(nodes)))
    asked = tuple(Asked(f"r{at}", demand(claim).pod, pods, (("tokens", 1),)) for at, (claim, pods) in enumerate(roles))
    spot = Lot().let_go([Waiting(key="w", akey=A10G, asked=asked)], fleet)["w"]
    named = [name for name in fleet if (name in spot.nodes if spot.excluded is None else name not in spot.excluded)]
    pods = [each for each in asked for _ in range(each.pods)]
    fitted = False
    for split in itertools.product(fleet, repeat=len(pods)):
        if any(split.count(name) > fleet[name].free["tokens"] for name in fleet):
            continue
        demands = [Demand(each.role, each.pod, 1, A10G, name) for each, name in zip(pods, split, strict=True)]
        fits = isinstance(fit(demands, {name: found.cards for name, found in fleet.items()}), Plan)
        if set(split) <= set(named):
            assert fits, (spot, split)
        fitted = fitted or (fits and len(set(split)) == 1 and fleet[split[0]].free["tokens"] == len(pods))
    assert not (spot.parked and fitted), "one node takes exactly this Workload, and it is not let go"


def test_a_free_node_is_named_whatever_it_cannot_count() -> None:
    unknown = Room(free_node(1, name="a"))
    assert not Lot().let_go([waits("w", wants_whole(), tokens=5)], {"a": unknown})["w"].parked
