"""Unit presets: how much CPU and memory comes with one accelerator of a known product.

Data, with one matching rule. Derived InstanceTypes are stamped with it at birth; an administrator who wants other
figures makes a type of their own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnitSpec:
    """What one unit of an InstanceType carries; quantities as Kubernetes writes them."""

    cpu: str
    ram: str
    local_storage: str = "100Gi"


CPU_ONLY = UnitSpec("1", "2Gi")
UNKNOWN_PRODUCT = UnitSpec("4", "16Gi")

SMALL = UnitSpec("8", "32Gi")
MEDIUM = UnitSpec("8", "64Gi")
LARGE = UnitSpec("12", "128Gi")
XLARGE = UnitSpec("12", "192Gi")

#: Product families by tier. A family matches an accelerator key that contains all its `-` tokens.
PRESETS: dict[str, UnitSpec] = {
    **dict.fromkeys(
        (
            "nvidia-h100",
            "nvidia-h200",
            "nvidia-b200",
            "nvidia-b300",
            "nvidia-gb200",
            "nvidia-gb300",
            "nvidia-gh200",
            "nvidia-h800",
        ),
        XLARGE,
    ),
    **dict.fromkeys(("nvidia-a100-80gb", "nvidia-a800-80gb", "nvidia-l40s"), LARGE),
    **dict.fromkeys(
        (
            "nvidia-a100",
            "nvidia-a100-40gb",
            "nvidia-a800",
            "nvidia-a800-40gb",
            "nvidia-a10",
            "nvidia-a10g",
            "nvidia-l40",
            "nvidia-v100-32gb",
            "nvidia-rtx-4090",
            "nvidia-rtx-5090",
        ),
        MEDIUM,
    ),
    **dict.fromkeys(
        (
            "nvidia-a30",
            "nvidia-l4",
            "nvidia-t4",
            "nvidia-v100",
            "nvidia-v100s",
            "nvidia-rtx-3090",
            "nvidia-rtx-6000",
            "nvidia-rtx-4000",
            "nvidia-rtx-a4000",
            "nvidia-rtx-a5000",
            "nvidia-rtx-a6000",
            "nvidia-rtx-pro-4500",
            "nvidia-gb10",
        ),
        SMALL,
    ),
}

_BY_TOKENS = sorted(
    ((frozenset(family.split("-")), preset) for family, preset in PRESETS.items()), key=lambda row: -len(row[0])
)


def unit_preset(akey: str | None) -> UnitSpec:
    """The unit of a derived type; the family with the most tokens wins, so that `a100-80gb` goes before `a100`."""
    if akey is None:
        return CPU_ONLY
    tokens = frozenset(akey.split("-"))
    return next((preset for family, preset in _BY_TOKENS if family <= tokens), UNKNOWN_PRODUCT)
