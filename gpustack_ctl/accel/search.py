"""Exact packing: every claim on the cards of one node at once, or the proof that it cannot be done.

Packing claim after claim can fail where a placement exists, so this module decides instead. Three observations keep the
decision small:

* Partitioned cards and the others never serve the same claim, so the two are packed apart.
* Whole cards and shares are settled by counting. Free cards of one model differ only in slice slots, so whole cards and
  the fewest free cards that the shares need take those with the fewest slots; what is left is the best that slices can
  be offered. Shares themselves are spread from the largest request down, each over the cards with most shares left,
  which succeeds whenever anything does (the Gale-Ryser condition).
* Slices and partitions are covered card by card: a card takes a maximal pattern of what is still needed. Nothing is
  lost by maximality, since moving a claim onto a card with room only frees room elsewhere. Claims of one size are a
  number, not individuals, so the state is (card, how many of each size are still needed), and a state that failed is
  not visited again.

The last is exponential in the number of different sizes on a node in the worst case: at most cards × Π(needed+1)
states, each with the maximal patterns of one card. A `Budget` counts the nodes searched and raises `Exhausted` past
its bound, which says nothing about whether a placement exists.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import ge, gt, mul, sub
from typing import Protocol

from gpustack_ctl.accel.cards import CardState
from gpustack_ctl.accel.families import Family, Mode
from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.accel.placement import Choice
from gpustack_ctl.accel.requests import ContainerDemand
from gpustack_ctl.accel.units import M


class Exhausted(Exception):  # noqa: N818 - it ends a search, it is not a fault
    """The search spent its bound without an answer."""


class Budget:
    """How many nodes a search may visit, all its parts together."""

    __slots__ = ("bound", "spent")

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.spent = 0

    def spend(self) -> None:
        self.spent += 1
        if self.spent > self.bound:
            raise Exhausted


Packed = list[list[Choice]]
"""Choices by claim, in the order of the claims."""


def pack(states: Iterable[CardState], claims: Sequence[ContainerDemand], budget: Budget) -> Packed | None:
    """A card for every part of every claim, or None when there is no such placement. `states` are of one model.

    Raises Exhausted.
    """
    healthy = [state for state in states if state.card.healthy]
    if any(claim.manufacturer != state.card.manufacturer for claim in claims for state in healthy[:1]):
        return None
    packed: Packed = [[] for _ in claims]
    whole = [state for state in healthy if not state.card.partitioned]
    partitioned = [state for state in healthy if state.card.partitioned]
    done = _pack_unpartitioned(whole, claims, packed, budget) and _pack_partitions(partitioned, claims, packed, budget)
    return packed if done else None


Vector = tuple[int, ...]
"""How many of each size."""


class Bin(Protocol):
    """One card to be covered. Kinds of claims are numbered, the largest first."""

    @property
    def weight(self) -> int:
        """What the card takes in all."""

    @property
    def most(self) -> Vector:
        """By kind, how many claims of that kind and of those before it the card takes at the most."""

    def patterns(self, left: Vector, budget: Budget) -> Iterator[Vector]:
        """The maximal ways in which the card takes from what is left."""


def cover(needed: Vector, weights: Vector, bins: Sequence[Bin], budget: Budget) -> list[Vector] | None:
    """Patterns, one per bin, that together take everything needed; None when there are none."""
    kinds = range(len(needed))
    weight_left = [sum(each.weight for each in bins[at:]) for at in range(len(bins) + 1)]
    most = [each.most for each in bins]
    most_left = [[sum(of[kind] for of in most[at:]) for kind in kinds] for at in range(len(bins) + 1)]
    failed: set[tuple[int, Vector]] = set()

    def taken_from(at: int, left: Vector) -> list[Vector] | None:
        if not any(left):
            return []
        if sum(map(mul, left, weights)) > weight_left[at]:
            return None
        if any(map(gt, accumulate(left), most_left[at])):
            return None
        if (at, left) in failed:
            return None
        for pattern in bins[at].patterns(left, budget):
            budget.spend()
            rest = taken_from(at + 1, tuple(map(sub, left, pattern)))
            if rest is not None:
                return [pattern, *rest]
        failed.add((at, left))
        return None

    return taken_from(0, needed)


def _pack_unpartitioned(
    states: Sequence[CardState], claims: Sequence[ContainerDemand], packed: Packed, budget: Budget
) -> bool:
    """Shares on as few free cards as they need, then whole cards, then slices on what is left."""
    free = sorted((state for state in states if state.free), key=lambda state: state.card.slots)
    whole = [at for at, claim in enumerate(claims) if claim.family is Family.EXCLUSIVE]
    spare = len(free) - sum(claims[at].cards for at in whole)
    shared = [at for at, claim in enumerate(claims) if claim.family is Family.SHARED]
    shared.sort(key=lambda at: -claims[at].cards)
    spread = _spread_on_fewest([claims[at].cards for at in shared], states, free[: max(spare, 0)])
    if spare < 0 or spread is None:
        return False
    opened, cards_of = spread
    for at, cards in zip(shared, cards_of, strict=True):
        packed[at] = [Choice.of(claims[at], state.card) for state in cards]
    rest = free[opened:]
    for at in whole:
        packed[at] = [Choice.of(claims[at], state.card) for state in rest[: claims[at].cards]]
        rest = rest[claims[at].cards :]
    sliced = [state for state in states if state.mode is Mode.SLICED and state.slots_free]
    return _pack_slices([*sliced, *(state for state in rest if state.card.sliceable)], claims, packed, budget)


def _spread_on_fewest(
    counts: Sequence[int], states: Sequence[CardState], free: Sequence[CardState]
) -> tuple[int, list[list[CardState]]] | None:
    """How many of the free cards the shares need besides the shared ones, and each claim's cards."""
    shared = [state for state in states if state.mode is Mode.SHARED and state.shares_free]
    for opened in range(len(free) + 1):
        spread = _spread(counts, [*shared, *free[:opened]])
        if spread is not None:
            return opened, spread
    return None


def _spread(counts: Sequence[int], states: Sequence[CardState]) -> list[list[CardState]] | None:
    """Distinct cards for each count, largest count first, a share of each; None when the shares do not suffice."""
    left = [state.shares_free for state in states]
    spread = []
    for count in counts:
        fullest_first = sorted(range(len(states)), key=lambda at: -left[at])[:count]
        if len(fullest_first) < count or (count and not left[fullest_first[-1]]):
            return None
        for at in fullest_first:
            left[at] -= 1
        spread.append([states[at] for at in fullest_first])
    return spread


def _pack_slices(
    states: Sequence[CardState], claims: Sequence[ContainerDemand], packed: Packed, budget: Budget
) -> bool:
    """Slices by size. A claim of several cards has one part on each: a card takes one part per claim at most."""
    sizes: dict[tuple[int, int], list[int]] = {}
    for at, claim in enumerate(claims):
        if claim.family is Family.SLICED:
            sizes.setdefault((claim.units, claim.cards), []).append(at)
    ordered = sorted(sizes, reverse=True)
    units = tuple(size for size, _ in ordered)
    needed = tuple(len(sizes[size]) * size[1] for size in ordered)
    claimants = tuple(len(sizes[size]) for size in ordered)
    cards = sorted(states, key=lambda state: state.remaining)
    sums = _sums(units, claimants)
    covered = cover(needed, units, [_SliceBin(state, units, claimants, sums) for state in cards], budget)
    if covered is None:
        return False
    for kind, size in enumerate(ordered):
        parts = [state for state, pattern in zip(cards, covered, strict=False) for _ in range(pattern[kind])]
        # Dealt round: a card's parts, never more than there are claims, go to different claims.
        for turn, state in enumerate(parts):
            at = sizes[size][turn % len(sizes[size])]
            packed[at].append(Choice.of(claims[at], state.card))
    return True


def _sums(units: Vector, claimants: Vector) -> list[int]:
    """Every sum up to a whole card that one part of each claimant can make; empty when there are too many to tell."""
    sums = {0}
    for size, count in zip(units, claimants, strict=True):
        for _ in range(min(count, M // max(size, 1))):
            more = {total + size for total in sums if total + size <= M}
            if more <= sums:
                break
            sums |= more
            if len(sums) > _MANY_SUMS:
                return []
    return sorted(sums)


_MANY_SUMS = 2_000


@dataclass(frozen=True, slots=True)
class _SliceBin:
    """A card that takes slices: by units, by slots, and one part of each claimant."""

    state: CardState
    units: Vector
    claimants: Vector
    sums: Sequence[int]

    @property
    def weight(self) -> int:
        """What slices of these sizes can fill of it, which is often less than it has."""
        fit = bisect_right(self.sums, self.state.remaining)
        return self.sums[fit - 1] if self.sums else self.state.remaining

    @property
    def most(self) -> Vector:
        return tuple(min(self.state.slots_free, self.state.remaining // max(size, 1)) for size in self.units)

    def patterns(self, left: Vector, budget: Budget) -> Iterator[Vector]:
        """Those that fill the card best come first, and among them those with large slices."""
        units, most = self.units, tuple(map(min, left, self.claimants))
        pattern = [0] * len(units)

        def fill(kind: int, room: int, slots: int) -> Iterator[Vector]:
            budget.spend()
            while kind < len(units) and not (most[kind] and slots and units[kind] <= room):
                kind += 1
            if kind == len(units):
                if not any(pattern[at] < most[at] and slots and units[at] <= room for at in range(len(units))):
                    yield tuple(pattern)
                return
            for count in range(min(most[kind], slots, room // max(units[kind], 1)), -1, -1):
                pattern[kind] = count
                yield from fill(kind + 1, room - count * units[kind], slots - count)
            pattern[kind] = 0

        found = fill(0, self.state.remaining, self.state.slots_free)
        return iter(sorted(found, key=lambda pattern: -sum(map(mul, pattern, units))))


def _pack_partitions(
    states: Sequence[CardState], claims: Sequence[ContainerDemand], packed: Packed, budget: Budget
) -> bool:
    wanted: dict[str, list[int]] = {}
    for at, claim in enumerate(claims):
        if claim.family is Family.PARTITIONED:
            wanted.setdefault(claim.profile or "", []).extend([at] * claim.cards)
    if not wanted:
        return True
    names = sorted(wanted)
    cards = sorted(states, key=lambda state: -state.occupied.bit_count())
    menus = [_menu_of(state, names) for state in cards]
    needed = tuple(len(wanted[name]) for name in names)
    covered = cover(needed, (0,) * len(needed), [_PartitionBin(menu) for menu in menus], budget)
    if covered is None:
        return False
    for state, menu, pattern in zip(cards, menus, covered, strict=False):
        places = next(places for vector, places in menu.items() if all(map(ge, vector, pattern)))
        for name, count, placements in zip(names, pattern, places, strict=True):
            for placement in placements[:count]:
                at = wanted[name].pop()
                packed[at].append(Choice.of(claims[at], state.card, placement))
    return True


Menu = dict[Vector, tuple[tuple[Placement, ...], ...]]
"""What a card can still host: maximal numbers by profile, each with placements that realise it."""


def _menu_of(state: CardState, names: Sequence[str]) -> Menu:
    profiles = (state.card.profile(name) for name in names)
    return _menu(tuple(profile.placements if profile else () for profile in profiles), state.occupied)


@lru_cache(maxsize=4096)
def _menu(placements: tuple[tuple[Placement, ...], ...], occupied: int) -> Menu:
    """Every maximal combination of non-overlapping placements, by how many of each profile it has.

    A card has a handful of slices, so all combinations are gone through.
    """
    found: Menu = {}
    choices = [(kind, place) for kind, places in enumerate(placements) for place in sorted(places)]
    chosen: list[list[Placement]] = [[] for _ in placements]

    def combine(start: int, occupied: int) -> None:
        vector = tuple(map(len, chosen))
        found.setdefault(vector, tuple(map(tuple, chosen)))
        for at in range(start, len(choices)):
            kind, place = choices[at]
            if not place.mask & occupied:
                chosen[kind].append(place)
                combine(at + 1, occupied | place.mask)
                chosen[kind].pop()

    combine(0, occupied)
    return {
        vector: places
        for vector, places in found.items()
        if not any(other != vector and all(map(ge, other, vector)) for other in found)
    }


@dataclass(frozen=True, slots=True)
class _PartitionBin:
    """A card that takes partitions: whatever its menu has. Intervals decide, so there is no weight to go by."""

    menu: Menu

    @property
    def weight(self) -> int:
        return 0

    @property
    def most(self) -> Vector:
        kinds = range(len(next(iter(self.menu))))
        return tuple(max(sum(vector[: kind + 1]) for vector in self.menu) for kind in kinds)

    def patterns(self, left: Vector, budget: Budget) -> Iterator[Vector]:
        """Those that take most first."""
        budget.spend()
        clipped = {tuple(map(min, vector, left)) for vector in self.menu}
        return iter(sorted(clipped, key=lambda vector: (-sum(vector), vector)))
