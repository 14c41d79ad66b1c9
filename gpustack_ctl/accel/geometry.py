"""Where hardware partitions may lie on a card, and what is left when some of them are taken.

A partitioned card is a short strip of memory slices (eight on an A100). A profile is a length with a few legal starts;
two partitions may coexist when their intervals do not overlap. Nothing else about a profile decides room, so the whole
geometry of a card is one small integer, a bit per occupied slice, and every question here is answered on that integer.

Counting alone is not enough: three free slices say nothing about a profile of two when its starts are even. Hence the
rule that every reader shares: a profile's remaining count is the number of its legal placements that overlap nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """An interval of a card's memory slices: `start` and the `length` from there."""

    start: int
    length: int

    @property
    def mask(self) -> int:
        """The slices of the interval as bits."""
        return ((1 << self.length) - 1) << self.start


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of partition that a card offers; `count` is how many an empty card holds."""

    name: str
    memory_mib: int
    compute_slices: int
    memory_slices: int
    count: int
    placements: tuple[Placement, ...]


def mask_of(placements: Iterable[Placement]) -> int:
    """All slices that the placements occupy, as bits."""
    mask = 0
    for placement in placements:
        mask |= placement.mask
    return mask


def free_placements(profile: Profile, occupied: int) -> tuple[Placement, ...]:
    """The profile's legal placements that overlap no occupied slice, lowest start first."""
    return tuple(sorted(placement for placement in profile.placements if not placement.mask & occupied))


def free_count(profile: Profile, occupied: int) -> int:
    """How many of the profile's legal placements overlap no occupied slice."""
    return sum(not placement.mask & occupied for placement in profile.placements)


def best_placement(profile: Profile, profiles: Sequence[Profile], occupied: int) -> Placement | None:
    """The free placement that leaves the most for the larger profiles; the lowest start among equals."""
    best: Placement | None = None
    best_left: tuple[int, ...] = ()
    for placement in free_placements(profile, occupied):
        left = what_is_left(profiles, occupied | placement.mask)
        if best is None or left > best_left:
            best, best_left = placement, left
    return best


def what_is_left(profiles: Sequence[Profile], occupied: int) -> tuple[int, ...]:
    """Free placements per profile, largest profile first: a tuple that is greater when more is left for the large."""
    return tuple(free_count(profile, occupied) for profile in largest_first(profiles))


def what_it_costs(profiles: Sequence[Profile], occupied: int, placement: Placement) -> tuple[int, ...]:
    """Free placements that each profile loses to the placement, largest profile first: smaller is better."""
    before, after = what_is_left(profiles, occupied), what_is_left(profiles, occupied | placement.mask)
    return tuple(had - has for had, has in zip(before, after, strict=True))


def largest_first(profiles: Sequence[Profile]) -> list[Profile]:
    """Profiles by the room that they take, the largest first."""
    return sorted(profiles, key=lambda profile: (-profile.memory_slices, -profile.compute_slices, profile.name))
