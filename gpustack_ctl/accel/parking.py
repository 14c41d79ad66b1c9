"""Letting go: which of the Workloads that wait without quota may be placed now, and onto which nodes.

A pin speaks of nodes and not of counts per node, and topology-aware scheduling splits a PodSet over nodes as it likes.
So a node is named only when it takes, card by card, as many Pods of every PodSet as could be sent there at once; then
whatever split is chosen fits. Where too few nodes can say so, the Workload stays parked.

The Workloads are asked in order, the most urgent first, and each is counted where it could go before the next is
asked: no more are let go than there is room for. One that has waited too long keeps nodes for itself, the ones that can
fit it soonest, and those that come after it are pinned off them: parked, a Workload is in no queue of Kueue's, and a
stream of small ones would pass it for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpustack_ctl.accel.cards import NodeCards, PodKey, state_of
from gpustack_ctl.accel.feasibility import Demand, Plan, fit
from gpustack_ctl.accel.pins import PIN_NODES, Reach, where
from gpustack_ctl.accel.placement import with_choices
from gpustack_ctl.accel.requests import PodDemand

_BOUND = 2_000
"""Search nodes per node of the fleet: a pin may leave a node out, the verdict may not."""

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Asked:
    """One PodSet that waits; `requests` is what one of its Pods takes of a node's countable resources."""

    role: str
    pod: PodDemand
    pods: int
    requests: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A Workload that holds no quota.

    `reserved` are the nodes kept for it already; `overdue` says that it has waited long enough to keep some.
    `uncounted`: it is not let go for now, or was and found no place, so its room is offered to the next as well.
    """

    key: str
    akey: str
    asked: tuple[Asked, ...]
    reserved: tuple[str, ...] = ()
    overdue: bool = False
    uncounted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """A node: its cards once every promise is kept, and what it has of countable resources, at most free and whole."""

    cards: NodeCards
    free: Amounts = field(default_factory=dict)
    whole: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spot(Reach):
    """Where a Workload may go, and the nodes that are kept for it."""

    reserved: tuple[str, ...] = ()


class Lot:
    """Remembers from pass to pass which shape of Workload fits which node, as long as the node stays as it was."""

    def __init__(self) -> None:
        self._known: dict[_Shape, dict[str, tuple[Room, bool]]] = {}

    def let_go(self, waiting: Iterable[Waiting], rooms: Mapping[str, Room]) -> dict[str, Spot]:
        """A spot for every Workload, given the most urgent first, over the nodes of their pool."""
        now = dict(rooms)
        seen: dict[_Shape, dict[str, tuple[Room, bool]]] = {}
        spots: dict[str, Spot] = {}
        hopeless: set[_Shape] = set()  # room only shrinks from here on: what found none will find none
        kept: tuple[str, ...] = ()
        for each in waiting:
            shape = each.akey, each.asked
            known = seen.setdefault(shape, self._known.get(shape, {}))
            fits, others = ([], []) if shape in hopeless else _sorted_out(each, now, known, barred=kept)
            if not _enough(each, fits, now):
                fits = []
                hopeless.add(shape)
            mine: tuple[str, ...] = ()
            if not kept and (each.reserved or (each.overdue and not fits)):
                kept = mine = tuple(node for node in each.reserved if node in now) or soonest(each, now)
            nodes, excluded = where(fits, others if fits else ())
            spots[each.key] = Spot(nodes, excluded if fits else None, mine)
            if fits and not each.uncounted:
                _count(each, fits, now)
        self._known = seen
        return spots


def soonest(each: Waiting, rooms: Mapping[str, Room]) -> tuple[str, ...]:
    """The nodes that can take the whole Workload once they are empty, the least occupied; none when none can."""
    left = [asked.pods for asked in each.asked]
    found: list[str] = []
    for name in sorted(rooms, key=lambda name: (_held(rooms[name], each.akey), name)):
        room = rooms[name]
        empty = Room(replace(room.cards, states=tuple(state_of(s.card) for s in room.cards.states)), room.whole)
        most = _most(each, empty)
        if any(most) and _takes(each, empty, most):
            found.append(name)
            left = [max(rest - pods, 0) for rest, pods in zip(left, most, strict=True)]
            if not any(left):
                return tuple(found)
    return ()


_Shape = tuple[str, tuple[Asked, ...]]


def _sorted_out(
    each: Waiting, rooms: Mapping[str, Room], known: dict[str, tuple[Room, bool]], *, barred: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The nodes that take all that could be sent there, and the others; not all of them once a pin can name no more."""
    fits: list[str] = []
    others: list[str] = []
    for name, room in rooms.items():
        if name in barred:
            others.append(name)
            continue
        was = known.get(name)
        if was is None or was[0] is not room:
            most = _most(each, room)
            was = known[name] = room, any(most) and _takes(each, room, most)
        (fits if was[1] else others).append(name)
        if len(fits) > PIN_NODES and len(others) > PIN_NODES:
            break
    return fits, others


def _most(each: Waiting, room: Room) -> list[int]:
    """How many Pods of each PodSet could be sent to the node at most."""
    return [
        min([asked.pods, *(max(room.free[key], 0) // amount for key, amount in asked.requests if key in room.free)])
        for asked in each.asked
    ]


def _takes(each: Waiting, room: Room, pods: Sequence[int]) -> bool:
    return isinstance(_fit(each, room, pods), Plan)


def _fit(each: Waiting, room: Room, pods: Sequence[int]) -> object:
    name = room.cards.node
    demands = [
        Demand(asked.role, asked.pod, count, each.akey, node=name)
        for asked, count in zip(each.asked, pods, strict=True)
        if count and not asked.pod.none
    ]
    return fit(demands, {name: room.cards}, bound=_BOUND)


def _enough(each: Waiting, nodes: Iterable[str], rooms: Mapping[str, Room]) -> bool:
    """Whether the nodes together take every Pod."""
    left = [asked.pods for asked in each.asked]
    for name in nodes:
        left = [rest - pods for rest, pods in zip(left, _most(each, rooms[name]), strict=True)]
        if all(rest <= 0 for rest in left):
            return True
    return False


def _count(each: Waiting, nodes: Iterable[str], rooms: dict[str, Room]) -> None:
    """Place the Workload on the first nodes that take it. Which ones Kueue will choose nobody knows."""
    left = [asked.pods for asked in each.asked]
    for name in nodes:
        room = rooms[name]
        pods = [min(rest, most) for rest, most in zip(left, _most(each, room), strict=True)]
        plan = _fit(each, room, pods)
        if not any(pods) or not isinstance(plan, Plan):
            continue
        cards = room.cards
        for placed in plan.pods:
            cards = with_choices(cards, PodKey("", each.key, "waiting"), placed.choices)
        rooms[name] = replace(room, cards=cards, free=_less(room.free, each, pods))
        left = [rest - count for rest, count in zip(left, pods, strict=True)]
        if not any(left):
            return


def _less(free: Amounts, each: Waiting, pods: Sequence[int]) -> Amounts:
    rest = dict(free)
    for asked, count in zip(each.asked, pods, strict=True):
        for key, amount in asked.requests:
            if key in rest:
                rest[key] -= amount * count
    return rest


def _held(room: Room, akey: str) -> int:
    return sum(state.allocated for state in room.cards.of(akey))
