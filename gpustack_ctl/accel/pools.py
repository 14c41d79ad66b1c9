"""A pool as a request sees it: the divisor and the catalog behind every fold.

Both belong to the InstanceType, which only operators write. They are never taken from the LocalQueue, which any tenant
may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel import naming
from gpustack_ctl.accel.families import Manufacturers, published_profile
from gpustack_ctl.accel.units import MIB, QuantityError, quantity


@dataclass(frozen=True, slots=True)
class Pool:
    """What is known of the accelerators behind a queue.

    Gates 1 and 3 take it from the InstanceType (`pool_of`); gate 5 builds it from the card itself.
    """

    name: str
    akey: str | None = None
    manufacturer: str | None = None
    #: VRAM of one accelerator; None while nobody knows it yet.
    memory_mib: int | None = None
    #: MiB by published profile name; None while the catalog is not known yet.
    profiles: Mapping[str, int] | None = None
    #: False for a pool of CPUs, where no accelerator can be asked for.
    acceleratable: bool = True

    @property
    def offered(self) -> str:
        """The profiles on offer, for a message."""
        return ", ".join(sorted(self.profiles or ())) or "no partitions"


def pool_of(instance_type: Mapping[str, Any], *, table: Manufacturers) -> Pool:
    """The pool that an InstanceType object fronts.

    The memory is what the spec says, else what was observed. The catalog counts as known once the status names a
    manufacturer, because the whole detail is filled in one write.
    """
    spec = _mapping(instance_type, "spec")
    detail = _mapping(_mapping(instance_type, "status"), "detail")
    akey = spec.get("acceleratorGroup") or None
    manufacturer = spec.get("manufacturer") or detail.get("manufacturer") or None
    if manufacturer is None and akey and (row := table.of_akey(akey)):
        manufacturer = row.key
    return Pool(
        name=_mapping(instance_type, "metadata").get("name", ""),
        akey=akey,
        manufacturer=manufacturer,
        memory_mib=_mib(spec.get("memory")) or _mib(detail.get("memory")),
        profiles=_catalog(detail, table) if detail.get("manufacturer") else None,
        acceleratable=spec.get("acceleratable") is not False,
    )


def fronting(instance_types: Iterable[Mapping[str, Any]], queue: str) -> Mapping[str, Any] | None:
    """Of the InstanceTypes that are labelled with the entrance `queue`, the one to believe; None when there is none.

    The label is an administrator's to write, too. Where several claim an entrance, it is the one that the entrance is
    named after.
    """
    named = ((_mapping(found, "metadata").get("name", ""), found) for found in instance_types)
    best = min(named, key=lambda pair: (naming.entrance_name(pair[0]) != queue, pair[0]), default=None)
    return None if best is None else best[1]


def _catalog(detail: Mapping[str, Any], table: Manufacturers) -> dict[str, int]:
    row = table.by_key.get(detail["manufacturer"])
    offered = _mapping(_mapping(detail, "slicedDetail"), "physical").get("profiles") or ()
    if row is None:
        return {}
    named = ((published_profile(row, profile["name"]), profile["memoryMib"]) for profile in offered)
    return {name: mib for name, mib in named if name is not None}


def _mib(memory: object) -> int | None:
    """Whole MiB of a memory quantity; None when it is absent, unreadable or nothing."""
    try:
        return max(quantity(memory) // MIB, 0) or None
    except QuantityError:
        return None


def _mapping(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return parent.get(key) or {}
