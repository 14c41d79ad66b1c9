"""Manufacturers, and the four ways to ask one for an accelerator.

Every resource key is spelt from one row of data: the manufacturer's base key, its partition kind and a fixed suffix. So
the table below is the only place that knows a vendor's spelling, and reading a key back is a dictionary look-up; the
webhook does it for every resource of every container.

A row's columns can be overridden by environment variables. The mapping is handed in, never read from the process: this
package has no outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import Any

from gpustack_ctl.accel.units import SHARE_UNITS, M


class Family(StrEnum):
    """The four ways to hold an accelerator; one Pod uses one of them."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    SLICED = "sliced"
    PARTITIONED = "partitioned"

    @property
    def mode(self) -> Mode:
        """What a card held this way shows in the ledger."""
        return _MODES[self]


class Mode(IntEnum):
    """How one card is held right now, as the ledger writes it."""

    NONE = 0
    EXCLUSIVE = 1
    SHARED = 2
    SLICED = 3
    PARTITIONED = 4


_MODES = {
    Family.EXCLUSIVE: Mode.EXCLUSIVE,
    Family.SHARED: Mode.SHARED,
    Family.SLICED: Mode.SLICED,
    Family.PARTITIONED: Mode.PARTITIONED,
}


class KeyKind(StrEnum):
    """What a resource key counts; the value is the suffix that follows the base key."""

    WHOLE = ""
    SHARED = ".shared"
    SLICED = ".sliced"
    SLICED_UNITS = ".sliced.units"
    CORES_PERCENTAGE = ".sliced.cores-percentage"
    MEMORY_PERCENTAGE = ".sliced.memory-percentage"
    MEMORY_MIB = ".sliced.memory-mib"
    PARTITIONED = ".partitioned"
    PARTITIONED_UNITS = ".partitioned.units"
    PROFILE = ".partitioned.<profile>"
    VISIBILITY = ".visibility"

    @property
    def family(self) -> Family | None:
        """The family the key belongs to; visibility is in none."""
        return _FAMILIES[self]


_FAMILIES = {
    KeyKind.WHOLE: Family.EXCLUSIVE,
    KeyKind.SHARED: Family.SHARED,
    KeyKind.SLICED: Family.SLICED,
    KeyKind.SLICED_UNITS: Family.SLICED,
    KeyKind.CORES_PERCENTAGE: Family.SLICED,
    KeyKind.MEMORY_PERCENTAGE: Family.SLICED,
    KeyKind.MEMORY_MIB: Family.SLICED,
    KeyKind.PARTITIONED: Family.PARTITIONED,
    KeyKind.PARTITIONED_UNITS: Family.PARTITIONED,
    KeyKind.PROFILE: Family.PARTITIONED,
    KeyKind.VISIBILITY: None,
}

#: The key by which a family is asked for: one token per accelerator, served by a device plugin.
TOKENS: Mapping[Family, KeyKind] = {
    Family.EXCLUSIVE: KeyKind.WHOLE,
    Family.SHARED: KeyKind.SHARED,
    Family.SLICED: KeyKind.SLICED,
    Family.PARTITIONED: KeyKind.PARTITIONED,
}


@dataclass(frozen=True, slots=True)
class Manufacturer:
    """One row of the table: how a vendor's resources are spelt and what its accelerators can do."""

    key: str
    pci_vendor: str
    base: str
    runtime_class: str = ""
    partition_kind: str = ""
    #: Logical slices one accelerator can hold; zero where the vendor offers no slicing.
    slices: int = 0
    cores_overcommit: bool = False
    #: The variable by which the vendor's runtime is told which devices a container sees; empty where there is none.
    visible_devices: str = ""

    def key_for(self, kind: KeyKind, profile: str | None = None) -> str:
        """The resource key of `kind`; `profile` in its published spelling, for `KeyKind.PROFILE` only."""
        if kind is KeyKind.VISIBILITY:
            return f"device.gpustack.ai/{self.key}.visibility"
        if kind is KeyKind.PROFILE:
            return f"{self.base}.partitioned.{self.partition_kind}-{profile}"
        return self.base + kind.value

    @property
    def credits(self) -> str:
        """The resource Kueue accounts this vendor's accelerators by, in units."""
        return f"credits.gpustack.ai/{self.key}"


@dataclass(frozen=True, slots=True)
class ResourceKey:
    """A resource key understood."""

    manufacturer: Manufacturer
    kind: KeyKind
    profile: str | None = None

    @property
    def family(self) -> Family | None:
        return self.kind.family


class Manufacturers:
    """The table, with the look-ups that gates need. Build it once with `manufacturers()`."""

    __slots__ = ("_credits", "_keys", "_profiles", "by_base", "by_key")

    def __init__(self, rows: Iterable[Manufacturer]) -> None:
        self.by_key: Mapping[str, Manufacturer] = {row.key: row for row in rows}
        self.by_base: Mapping[str, Manufacturer] = {row.base: row for row in self.by_key.values()}
        self._credits = {row.credits: row for row in self.by_key.values()}
        self._keys = {
            row.key_for(kind): ResourceKey(row, kind)
            for row in self.by_key.values()
            for kind in KeyKind
            if kind is not KeyKind.PROFILE
        }
        self._profiles = {
            row.base: (row, row.key_for(KeyKind.PROFILE, "")) for row in self.by_key.values() if row.partition_kind
        }

    def read(self, key: str) -> ResourceKey | None:
        """What `key` asks for; None for a resource that is not an accelerator's."""
        if (known := self._keys.get(key)) is not None:
            return known
        base, partitioned, _ = key.partition(".partitioned.")
        if not partitioned or base not in self._profiles:
            return None
        manufacturer, prefix = self._profiles[base]
        profile = key.removeprefix(prefix)
        if profile in ("", key):
            return None
        return ResourceKey(manufacturer, KeyKind.PROFILE, profile)

    def of_credits(self, key: str) -> Manufacturer | None:
        """The manufacturer whose `credits.gpustack.ai/…` resource `key` is."""
        return self._credits.get(key)

    def of_akey(self, akey: str) -> Manufacturer | None:
        """The manufacturer that an accelerator key `<manufacturer>-<id>` starts with."""
        return self.by_key.get(akey.partition("-")[0])


def manufacturers(env: Mapping[str, str] | None = None) -> Manufacturers:
    """The table, with the overrides that `env` holds (`GPUSTACK_NVIDIA_PARTITION_KIND` and the like)."""
    env = env or {}
    return Manufacturers(_overridden(row, env) for row in _ROWS)


def published_profile(manufacturer: Manufacturer, name: str) -> str | None:
    """How a partition profile is spelt in a resource key; None when it cannot be part of one.

    Two numbers written without a separator get a dot (`4g48gb` → `4g.48gb`). A name that Kubernetes would refuse inside
    a key (`1g.10gb+me`) is not published at all: rewriting it could make two profiles one.
    """
    spelt = _TWO_NUMBERS.sub(r"\1.\2", name)
    segment = manufacturer.key_for(KeyKind.PROFILE, spelt).rpartition("/")[2]
    return spelt if _SEGMENT.fullmatch(segment) and _SEGMENT.fullmatch(spelt) else None


def transformations(table: Manufacturers) -> list[dict[str, Any]]:
    """How Kueue turns each vendor's requests into credits: `resources.transformations` of its configuration.

    Bare `.sliced` and `.partitioned` tokens, percentages, MiB and profile keys cost nothing themselves, so they are not
    listed: what the Pod webhook folds from them does.
    """
    prices = {KeyKind.WHOLE: M, KeyKind.SHARED: SHARE_UNITS, KeyKind.SLICED_UNITS: 1, KeyKind.PARTITIONED_UNITS: 1}
    return [
        {"input": row.key_for(kind), "strategy": "Replace", "outputs": {row.credits: str(price)}}
        for row in table.by_key.values()
        for kind, price in prices.items()
    ]


_ROWS = (
    Manufacturer("amd", "1002", "amd.com/gpu", "amd", visible_devices="AMD_VISIBLE_DEVICES"),
    Manufacturer("ascend", "19e5", "huawei.com/npu", "ascend", "", 63, True, "ASCEND_VISIBLE_DEVICES"),
    Manufacturer("cambricon", "cabc", "cambricon.com/mlu", "cambricon", "", 16, False, "CAMBRICON_VISIBLE_DEVICES"),
    Manufacturer("hygon", "1d94", "hygon.com/dcu", "hygon", "mig", 4, False),
    Manufacturer("iluvatar", "1e3e", "iluvatar.com/gpu", "iluvatar", visible_devices="IX_VISIBLE_DEVICES"),
    Manufacturer("metax", "9999", "metax-tech.com/gpu", "metax", "", 16, False),
    Manufacturer("mthreads", "1ed5", "mthreads.com/gpu", "mthreads", "", 16, False, "MTHREADS_VISIBLE_DEVICES"),
    Manufacturer("nvidia", "10de", "nvidia.com/gpu", "nvidia", "mig", 128, True, "NVIDIA_VISIBLE_DEVICES"),
    Manufacturer("thead", "1ded", "alibabacloud.com/ppu", "", "mig"),
)

_COLUMNS = {
    "PCI_VENDOR_ID": "pci_vendor",
    "ACCELERATABLE_RESOURCE_NAME": "base",
    "ACCELERATABLE_RUNTIME_NAME": "runtime_class",
    "PARTITION_KIND": "partition_kind",
}

_TWO_NUMBERS = re.compile(r"^([0-9]+[a-z]+)([0-9]+[a-z]+)$", re.ASCII)
_SEGMENT = re.compile(r"(?=.{1,63}$)[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)


def _overridden(row: Manufacturer, env: Mapping[str, str]) -> Manufacturer:
    names = {column: f"GPUSTACK_{row.key.upper()}_{suffix}" for suffix, column in _COLUMNS.items()}
    changes: dict[str, Any] = {column: env[name].strip() for column, name in names.items() if env.get(name, "").strip()}
    return replace(row, **changes) if changes else row
