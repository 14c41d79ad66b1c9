"""The allocation record: the Pod annotation that says which cards each container holds.

It is the ledger's only source, so it is read strictly: a text that is not exactly a record names no card, and raises,
rather than being understood in part. Records are read on every rebuild and change once in a Pod's life, hence the
cache by text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from types import MappingProxyType
from typing import Any

import orjson

from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.accel.units import M


class RecordError(ValueError):
    """A record that cannot be read; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One card in one container's record. `group` and `manufacturer` are the card's model."""

    group: str
    manufacturer: str
    id: str
    index: int
    mode: Mode
    units: int
    profile: str = ""
    placements: tuple[Placement, ...] = ()


Record = Mapping[str, tuple[Entry, ...]]
"""What a Pod holds: entries by container name."""


def record_of(pod: Mapping[str, Any]) -> Record:
    """The record of a Pod object, empty when it has none; raises RecordError."""
    text = (pod["metadata"].get("annotations") or {}).get(ALLOCATED)
    return _NOTHING if text is None else parse_record(text)


def readable_record(pod: Mapping[str, Any]) -> Record:
    """The record of a Pod object as far as one can go by it: empty when it has none, or one that cannot be read."""
    try:
        return record_of(pod)
    except RecordError:
        return _NOTHING


@lru_cache(maxsize=8192)
def parse_record(text: str) -> Record:
    """Read an allocation record; raises RecordError."""
    try:
        containers = orjson.loads(text)
    except orjson.JSONDecodeError as fault:
        raise RecordError(f"is not JSON: {fault}") from None
    try:
        return MappingProxyType({name: _entries(held) for name, held in containers.items()})
    except RecordError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as fault:
        raise RecordError(f"does not have the shape of a record: {type(fault).__name__} {fault}") from None


def format_record(record: Record) -> str:
    """Write an allocation record: compact JSON, containers and cards in a fixed order."""
    written = {name: {"devices": {"groups": _groups(record[name])}} for name in sorted(record)}
    return orjson.dumps(written).decode()


_NOTHING: Record = MappingProxyType({})


def _entries(held: Mapping[str, Any]) -> tuple[Entry, ...]:
    return tuple(
        _entry(group["id"], group["manufacturer"], accelerator)
        for group in held["devices"]["groups"]
        for accelerator in group["accelerators"]
    )


def _entry(group: str, manufacturer: str, accelerator: Mapping[str, Any]) -> Entry:
    mode, units = Mode(accelerator["mode"]), accelerator["allocated"]
    if mode is Mode.NONE or type(units) is not int or not 0 <= units <= M:
        raise RecordError(f"has a card held in mode {mode.value} for {units!r} units")
    placements = tuple(
        Placement(_slice(place["start"]), _slice(place["length"]))
        for place in accelerator.get("allocatedPhysicalPlacements") or ()
    )
    return Entry(
        group=_text(group),
        manufacturer=_text(manufacturer),
        id=_text(accelerator["id"]),
        index=int(accelerator["index"]),
        mode=mode,
        units=units,
        profile=_text(accelerator.get("allocatedPhysicalProfile") or ""),
        placements=placements,
    )


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise RecordError(f"has {value!r} where a name belongs")


_LONGEST_STRIP = 64
"""More memory slices than any card has: a longer interval is a fault, not a card."""


def _slice(value: object) -> int:
    if type(value) is int and 0 <= value <= _LONGEST_STRIP:
        return value
    raise RecordError(f"has {value!r} where a memory slice belongs")


def _groups(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    ordered = sorted(
        entries, key=lambda entry: (entry.manufacturer, entry.group, entry.index, entry.id, entry.placements)
    )
    return [
        {"id": group, "manufacturer": manufacturer, "accelerators": [_accelerator(entry) for entry in members]}
        for (manufacturer, group), members in groupby(ordered, key=lambda entry: (entry.manufacturer, entry.group))
    ]


def _accelerator(entry: Entry) -> dict[str, Any]:
    written: dict[str, Any] = {
        "id": entry.id,
        "index": entry.index,
        "mode": int(entry.mode),
        "allocated": entry.units,
    }
    if entry.profile:
        written["allocatedPhysicalProfile"] = entry.profile
        written["allocatedPhysicalPlacements"] = [
            {"start": placement.start, "length": placement.length} for placement in entry.placements
        ]
    return written
