"""The plan annotation: which cards the admission check set aside for each Pod, carried to the node by Kueue.

Packing each Pod as it comes can strand the last one: cards with 50 and 60 % free take slices of 50, 30 and 30 %, but
only if both 30s share the second card. The check has found an assignment; the plan tells the allocator which. It is a
hint and nothing more: Pods of one PodSet are interchangeable, so a Pod takes the first entry of its node that no
sibling has taken, and a plan that is missing, stale or forged is simply not followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import orjson

from gpustack_ctl.accel.placement import Choice, Planned
from gpustack_ctl.accel.records import Entry, Record

PLAN_LIMIT = 64 * 1024
"""A plan longer than this many bytes is not written: an object's annotations share 256 KiB."""

PodPlan = Mapping[str, tuple[Planned, ...]]
"""One Pod's cards, by container name."""


def format_plan(pods: Mapping[str, Sequence[Iterable[Choice]]]) -> str | None:
    """The annotation for one PodSet from each node's Pods' choices; None when it would be too long."""
    written = {"v": _VERSION, "nodes": {node: [_pod(choices) for choices in pods[node]] for node in sorted(pods)}}
    text = orjson.dumps(written)
    return text.decode() if len(text) <= PLAN_LIMIT else None


def parse_plan(text: str, node: str) -> tuple[PodPlan, ...]:
    """The plan's entries for the node; none at all when the text is not a plan."""
    if len(text) > PLAN_LIMIT:
        return ()
    return _parse(text, node)


def open_entries(entries: Sequence[PodPlan], taken: Iterable[Record]) -> tuple[PodPlan, ...]:
    """The entries that no sibling's record has taken, in the plan's order."""
    left = list(entries)
    for record in taken:
        at = next((at for at, entry in enumerate(left) if _took(entry, record)), None)
        if at is not None:
            del left[at]
    return tuple(left)


def planned_cards(entries: Iterable[PodPlan]) -> tuple[Planned, ...]:
    """Every card that the entries set aside, for the allocator's `avoid`."""
    return tuple(planned for entry in entries for cards in entry.values() for planned in cards)


_VERSION = 1


def _pod(choices: Iterable[Choice]) -> dict[str, list[dict[str, Any]]]:
    containers: dict[str, list[dict[str, Any]]] = {}
    for choice in choices:
        containers.setdefault(choice.container, []).append(_card(choice))
    return containers


def _card(choice: Choice) -> dict[str, Any]:
    if choice.placement is None:
        return {"id": choice.card.id}
    return {"id": choice.card.id, "profile": choice.profile, "start": choice.placement.start}


@lru_cache(maxsize=1024)
def _parse(text: str, node: str) -> tuple[PodPlan, ...]:
    try:
        written = orjson.loads(text)
        if written["v"] != _VERSION:
            return ()
        return tuple(
            MappingProxyType({name: tuple(map(_planned, cards)) for name, cards in entry.items()})
            for entry in written["nodes"].get(node, ())
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        # A plan is only a hint, and anybody may have written this one: what cannot be read is not followed.
        return ()


def _planned(card: Mapping[str, Any]) -> Planned:
    profile, start = card.get("profile", ""), card.get("start")
    if not isinstance(card["id"], str) or not isinstance(profile, str) or not isinstance(start, int | None):
        raise TypeError("not a planned card")
    return Planned(card["id"], profile, start)


def _took(entry: PodPlan, record: Record) -> bool:
    """Whether the record holds the entry's cards, as far as it is written: a Pod's containers come one by one."""
    written = [name for name in entry if name in record]
    return bool(written) and all(
        sorted(_key(planned) for planned in entry[name]) == sorted(_held(held) for held in record[name])
        for name in written
    )


def _key(planned: Planned) -> tuple[str, str, int]:
    return planned.card, planned.profile, -1 if planned.start is None else planned.start


def _held(entry: Entry) -> tuple[str, str, int]:
    return entry.id, entry.profile, entry.placements[0].start if entry.placements else -1
