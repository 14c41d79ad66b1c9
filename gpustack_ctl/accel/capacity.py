"""The counting keys of a node: units, percentages, MiB and profiles of sliced and partitioned cards.

The kubelet counts only what device plugins advertise, and no plugin advertises these, so the manager writes them into
`Node.status`. It does so only while the family's own token pool is present in the node's capacity: a node whose agent
is gone must not look full of room. Capacity and not allocatable decides, because allocatable also drops to zero when
the family is merely full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gpustack_ctl.accel.cards import Occupancy
from gpustack_ctl.accel.families import KeyKind, Manufacturer, Manufacturers
from gpustack_ctl.accel.units import M, QuantityError, quantity, stands_for


def capacity_keys(cards: Iterable[Occupancy], *, advertised: Mapping[str, str], table: Manufacturers) -> dict[str, str]:
    """The counting keys that the node should carry, given the `capacity` that it carries now."""
    by_manufacturer: dict[str, list[Occupancy]] = {}
    for card in cards:
        by_manufacturer.setdefault(card.card.manufacturer, []).append(card)
    wanted: dict[str, str] = {}
    for key in sorted(by_manufacturer):
        manufacturer = table.by_key.get(key)
        if manufacturer is None:
            continue
        for token, counts in (
            (KeyKind.SLICED, _sliced(manufacturer, by_manufacturer[key])),
            (KeyKind.PARTITIONED, _partitioned(manufacturer, by_manufacturer[key])),
        ):
            if _present(advertised.get(manufacturer.key_for(token))):
                wanted |= {name: str(count) for name, count in counts.items()}
    return wanted


def counting_keys(capacity: Mapping[str, str], table: Manufacturers) -> dict[str, str]:
    """The counting keys among the keys of a node's capacity or allocatable."""
    return {
        key: value
        for key, value in capacity.items()
        if "/" in key and (known := table.read(key)) is not None and known.kind in _COUNTING
    }


def capacity_patch(wanted: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str | None]:
    """The merge patch from the counting keys present to those wanted: None removes a stale one; empty when equal.

    Amounts are compared by value: the API server writes 1600000 back as 1600k.
    """
    return {
        **{key: value for key, value in wanted.items() if not stands_for(present.get(key), int(value))},
        **{key: None for key in present if key not in wanted},
    }


_COUNTING = frozenset(
    {
        KeyKind.SLICED_UNITS,
        KeyKind.CORES_PERCENTAGE,
        KeyKind.MEMORY_PERCENTAGE,
        KeyKind.MEMORY_MIB,
        KeyKind.PARTITIONED_UNITS,
        KeyKind.PROFILE,
    }
)


def _sliced(manufacturer: Manufacturer, cards: Iterable[Occupancy]) -> dict[str, int]:
    sliceable = [card.card for card in cards if card.card.sliceable]
    cores = sum(card.slots if card.cores_overcommit else 1 for card in sliceable)
    return {
        manufacturer.key_for(KeyKind.SLICED_UNITS): len(sliceable) * M,
        manufacturer.key_for(KeyKind.CORES_PERCENTAGE): cores * 100,
        manufacturer.key_for(KeyKind.MEMORY_PERCENTAGE): len(sliceable) * 100,
        manufacturer.key_for(KeyKind.MEMORY_MIB): sum(card.memory_mib for card in sliceable),
    }


def _partitioned(manufacturer: Manufacturer, cards: Iterable[Occupancy]) -> dict[str, int]:
    partitioned = [card for card in cards if card.card.partitioned]
    instances: Counter[str] = Counter()
    for card in partitioned:
        instances.update(card.allocated_profiles())
        instances.update(card.remaining_profiles())
    profiles = {
        manufacturer.key_for(KeyKind.PROFILE, name): instances[name]
        for name in sorted(instances)
        if manufacturer.partition_kind
    }
    return {manufacturer.key_for(KeyKind.PARTITIONED_UNITS): len(partitioned) * M, **profiles}


def _present(tokens: str | None) -> bool:
    try:
        return tokens is not None and quantity(tokens) > 0
    except QuantityError:
        return False
