"""What must hold of a Pod spec that gate 1 lets pass, worked out by other means than gate 1's own.

Quantities are read as exact fractions and a slice's price is the floor of a fraction; nothing here is imported from the
code under test but the table of keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from gpustack_ctl.accel.labels import QUEUE_ENTRANCE
from tests.gate1.cases import TABLE, instance_types

Obj = dict[str, Any]

M = 1_600_000
_SLICEABLE = ("nvidia.", "huawei.", "cambricon.", "hygon.", "mthreads.", "metax-tech.")
_SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_SUFFIXES |= {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": 1}
_SUFFIXES |= {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_QUANTITY = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?|[eE][+-]?\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Offer:
    """What stands behind a queue; nothing is known of a queue without a pool."""

    vram: int | None = None
    profiles: Mapping[str, int] = field(default_factory=dict)
    #: The resource of its accelerators; empty for a pool that has none.
    base: str | None = None


def offers() -> dict[str, Offer]:
    """The pools of the table, by queue."""
    found = {}
    for instance_type in instance_types():
        spec, detail = instance_type["spec"], instance_type["status"]["detail"]
        maker = spec.get("acceleratorGroup", "").partition("-")[0]
        found[instance_type["metadata"]["labels"][QUEUE_ENTRANCE]] = Offer(
            vram=int(spec["memory"].removesuffix("Mi")) if "memory" in spec else None,
            profiles={
                profile["name"]: profile["memoryMib"]
                for profile in detail.get("slicedDetail", {}).get("physical", {}).get("profiles", ())
            },
            base=TABLE.by_key[maker].base if maker else "",
        )
    return found


def violations(spec: Obj, offer: Offer) -> list[str]:
    """Everything that is so of a spec that gate 1 let pass, and may not be; empty for a true verdict."""
    claiming = [(group, _claims(container)) for group, container in _containers(spec)]
    claiming = [(group, claims) for group, claims in claiming if claims]
    found = []
    found += ["two families"] if len({_family(key) for _, claims in claiming for key in claims}) > 1 else []
    found += ["two manufacturers"] if len({_base(key) for _, claims in claiming for key in claims}) > 1 else []
    found += ["two groups"] if len({group for group, _ in claiming}) > 1 else []
    found += ["a sidecar"] if any(group == "sidecar" for group, _ in claiming) else []
    slicing = [claims for _, claims in claiming if any(_family(key) in (".sliced", ".partitioned") for key in claims)]
    found += ["two slicing containers"] if len(slicing) > 1 else []
    for _, claims in claiming:
        found += ["another pool's cards"] if offer.base not in (None, _base(next(iter(claims)))) else []
        found += [f"{key}: {sides}" for key, sides in claims.items() if not _one_positive_integer(sides)]
        if not found:
            found += _mispriced({key: _whole(sides) for key, sides in claims.items()}, offer)
    return found


def _mispriced(claims: dict[str, int], offer: Offer) -> list[str]:
    vram, profiles = offer.vram, offer.profiles
    base = _base(next(iter(claims)))
    family = _family(next(iter(claims)))
    if family not in (".sliced", ".partitioned"):
        return []
    if claims.get(base + family) != 1:
        return [f"{claims.get(base + family)} of {base}{family}"]
    if family == ".sliced":
        if not base.startswith(_SLICEABLE):
            return [f"a slice of {base}"]
        percent, mib = claims.get(f"{base}.sliced.memory-percentage"), claims.get(f"{base}.sliced.memory-mib")
        if (percent is None) == (mib is None):
            return ["not one budget"]
        if mib is not None and vram is None:
            return ["MiB of an unknown card"]
        price = Fraction(percent * M, 100) if percent is not None else Fraction((mib or 0) * M, vram or 1)
    else:
        asked = [key.partition("mig-")[2] for key in claims if ".partitioned.mig-" in key]
        once = [value for key, value in claims.items() if ".partitioned.mig-" in key] == [1]
        if not once or asked[0] not in profiles or vram is None:
            return [f"profiles {asked}"]
        price = Fraction(profiles[asked[0]] * M, vram)
    units = claims.get(f"{base}{family}.units")
    wrong = [] if units == price.__floor__() and 0 <= price <= M else [f"{units} units, worth {price}"]
    cores = claims.get(f"{base}.sliced.cores-percentage")
    return wrong if family == ".partitioned" or (cores and cores <= 100) else [*wrong, f"{cores} % of cores"]


def _containers(spec: Obj) -> list[tuple[str, Obj]]:
    running = [("running", container) for container in spec.get("containers") or ()]
    init = [
        ("sidecar" if (container or {}).get("restartPolicy") == "Always" else "init", container)
        for container in spec.get("initContainers") or ()
    ]
    return init + running


def _claims(container: Obj) -> dict[str, list[Any]]:
    """Both sides' values of every accelerator key."""
    resources = (container or {}).get("resources") or {}
    sides: dict[str, list[Any]] = {}
    for side in ("limits", "requests"):
        for key, value in (resources.get(side) or {}).items():
            if _base(key) is not None and ".visibility" not in key:
                sides.setdefault(key, []).append(value)
    return sides


def _base(key: str) -> str | None:
    for base in TABLE.by_base:
        if key == base or (key.startswith(f"{base}.") and _family(key) in (".shared", ".sliced", ".partitioned")):
            return base if TABLE.read(key) is not None else None
    return None


def _family(key: str) -> str:
    name = key.partition("/")[2].partition(".")[2]
    return f".{name.partition('.')[0]}" if name else ""


def _one_positive_integer(values: list[Any]) -> bool:
    numbers = {_number(value) for value in values}
    return len(numbers) == 1 and all(n is not None and n > 0 and n.denominator == 1 and n < 2**63 for n in numbers)


def _whole(values: list[Any]) -> int:
    number = _number(values[0])
    assert number is not None
    return int(number)


def _number(value: Any) -> Fraction | None:
    match = _QUANTITY.fullmatch(str(value).strip(" "))
    if match is None or len(match[3]) > 8:
        return None
    scale = (
        Fraction(10) ** int(match[3][1:]) if match[3][:1] in ("e", "E") and len(match[3]) > 1 else _SUFFIXES[match[3]]
    )
    if match[3] in _SUFFIXES:
        scale = Fraction(_SUFFIXES[match[3]])
    number = Fraction(match[2]) * scale
    return -number if match[1] == "-" else number
