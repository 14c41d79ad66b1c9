"""Every rule and every further refusal of gate 1, per family: a request that is accepted and one that is not.

One table, asked of the function and of the real API server. `refused` names each fault by type and field; a field
stands below the Pod's spec. `folded` is what an accepted request is stored with besides what it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpustack_ctl.accel.families import KeyKind, Manufacturer, manufacturers
from gpustack_ctl.accel.labels import QUEUE_ENTRANCE
from gpustack_ctl.accel.naming import entrance_name

Obj = dict[str, Any]
Limits = Mapping[str, str]

TABLE = manufacturers()

INVALID, REQUIRED = "FieldValueInvalid", "FieldValueRequired"
FORBIDDEN, UNSUPPORTED = "FieldValueForbidden", "FieldValueNotSupported"

GPU = "nvidia.com/gpu"
SHARED, SLICED, PARTITIONED = f"{GPU}.shared", f"{GPU}.sliced", f"{GPU}.partitioned"
PERCENT, MIB, CORES = f"{SLICED}.memory-percentage", f"{SLICED}.memory-mib", f"{SLICED}.cores-percentage"
UNITS, PART_UNITS = f"{SLICED}.units", f"{PARTITIONED}.units"
SMALL, MIDDLE = f"{PARTITIONED}.mig-1g.10gb", f"{PARTITIONED}.mig-2g.20gb"

WHOLE: Limits = {GPU: "1"}
SHARE: Limits = {SHARED: "1"}
HALF: Limits = {SLICED: "1", PERCENT: "50"}
PARTITION: Limits = {PARTITIONED: "1", SMALL: "1"}
ASKS: Mapping[str, Limits] = {"exclusive": WHOLE, "shared": SHARE, "sliced": HALF, "partitioned": PARTITION}

NVIDIA, MIG, CPUS, NEW, NOWHERE = "nvidia-cases", "nvidia-mig-cases", "", "nvidia-new-cases", "nowhere"


@dataclass(frozen=True, slots=True)
class Case:
    """A request, the pool it is sent to (by its accelerators' key), and what becomes of it."""

    name: str
    spec: Obj
    pool: str = NVIDIA
    refused: tuple[tuple[str, str], ...] = ()
    #: A word that the refusal must say.
    says: str = ""
    #: By container, in the order init containers, containers.
    folded: tuple[Limits, ...] = field(default=())
    pinned: bool = False

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def pool_name(akey: str) -> str:
    return f"gpustack--{akey}-linux-amd64" if akey else "gpustack--generic-cases-linux-amd64"


def queue_of(akey: str) -> str:
    return akey if akey == NOWHERE else entrance_name(pool_name(akey))


def instance_types() -> list[Obj]:
    """The pools that the table speaks of."""
    return [
        _instance_type(NVIDIA, "nvidia", memory="24576Mi"),
        _instance_type(MIG, "nvidia", memory="81920Mi", profiles={"1g.10gb": 9728, "2g.20gb": 19968}),
        _instance_type(NEW, "nvidia"),
        _instance_type(CPUS, ""),
        *(_instance_type(f"{key}-cases", key, memory="32768Mi") for key in TABLE.by_key if key != "nvidia"),
    ]


def _instance_type(akey: str, manufacturer: str, *, memory: str = "", profiles: Mapping[str, int] | None = None) -> Obj:
    name = pool_name(akey)
    spec: Obj = {"os": "linux", "arch": "amd64", "unitResources": {"cpu": "8", "ram": "64Gi"}, "localStorage": "100Gi"}
    spec |= {"acceleratable": bool(akey)} | ({"acceleratorGroup": akey} if akey else {})
    detail: Obj = {}
    if memory:
        spec["memory"] = memory
        rows = [{"name": profile, "memoryMib": mib} for profile, mib in (profiles or {}).items()]
        detail = {"manufacturer": manufacturer, "memory": memory, "slicedDetail": {"physical": {"profiles": rows}}}
    return {
        "metadata": {"name": name, "labels": {QUEUE_ENTRANCE: entrance_name(name)}},
        "spec": spec,
        "status": {"detail": detail},
    }


def container(limits: Limits, name: str, requests: Limits | None = None, **more: Any) -> Obj:
    resources: Obj = {"limits": dict(limits)} | ({"requests": dict(requests)} if requests is not None else {})
    return {"name": name, "image": "busybox", "resources": resources, **more}


def spec(*running: Limits, init: tuple[Limits, ...] = (), sidecar: tuple[Limits, ...] = ()) -> Obj:
    inits = [container(limits, f"i{at}") for at, limits in enumerate(init)]
    inits += [container(limits, f"s{at}", restartPolicy="Always") for at, limits in enumerate(sidecar)]
    mains = [container(limits, f"c{at}") for at, limits in enumerate(running or ({},))]
    found: Obj = {"restartPolicy": "Never", "containers": mains}
    return found | ({"initContainers": inits} if inits else {})


def at(key: str, index: int = 0, *, init: bool = False, side: str = "limits") -> str:
    """Where a key stands, below the spec."""
    return f".{'initContainers' if init else 'containers'}[{index}].resources.{side}[{key}]"


HERE = ""
INIT = ".initContainers"


def sliced_into(units: int) -> Limits:
    return {UNITS: str(units), CORES: "100"}


FOLDS: Mapping[str, Limits] = {
    "exclusive": {},
    "shared": {},
    "sliced": sliced_into(800_000),
    "partitioned": {PART_UNITS: "190000"},
}


def _pool_for(family: str) -> str:
    return MIG if family == "partitioned" else NVIDIA


def _rule_1() -> Iterator[Case]:
    """One family, in one group of containers."""
    for family, asks in ASKS.items():
        pool, folded = _pool_for(family), FOLDS[family]
        other = SHARE if family == "exclusive" else WHOLE
        yield Case(f"1 {family} in a container", spec(asks), pool, folded=(folded,))
        yield Case(f"1 {family} in an init container", spec({}, init=(asks,)), pool, folded=(folded,))
        yield Case(f"1 {family} and another family", spec(asks, other), pool, ((INVALID, HERE),), "one family")
        faults = ((FORBIDDEN, INIT),) + (((INVALID, HERE),) if family in ("sliced", "partitioned") else ())
        yield Case(f"1 {family} in two groups", spec(asks, init=(asks,)), pool, faults, "give up")
    yield Case("1 exclusive in two containers", spec(WHOLE, {GPU: "2"}))
    yield Case("1 shared in two containers", spec(SHARE, SHARE))
    yield Case("1 families of one container", spec({**WHOLE, **SHARE}), refused=((INVALID, HERE),))


def _rule_2() -> Iterator[Case]:
    """A slice: one, with one memory budget, within its card."""
    for percent, units in (("1", 16_000), ("33", 528_000), ("100", 1_600_000)):
        yield Case(f"2 a slice of {percent} %", spec(HALF | {PERCENT: percent}), folded=(sliced_into(units),))
    for mib, units in (("1", 65), ("6144", 400_000), ("24576", 1_600_000), ("6Ki", 400_000)):
        yield Case(f"2 a slice of {mib} MiB", spec({SLICED: "1", MIB: mib}), folded=(sliced_into(units),))
    yield Case("2 a slice with cores", spec(HALF | {CORES: "30"}), folded=({UNITS: "800000"},))
    yield Case("2 a slice whose units lie", spec(HALF | {UNITS: "1"}), folded=(sliced_into(800_000),))
    yield Case("2 two slices", spec(HALF | {SLICED: "2"}), refused=((INVALID, at(SLICED)),), says="write 1")
    yield Case("2 no budget", spec({SLICED: "1"}), refused=((REQUIRED, at(PERCENT)),), says="memory budget")
    yield Case("2 two budgets", spec(HALF | {MIB: "1024"}), refused=((INVALID, at(MIB)),), says="either")
    for key, value in ((PERCENT, "0"), (PERCENT, "101"), (CORES, "0"), (CORES, "101"), (MIB, "0"), (MIB, "24577")):
        asked = {SLICED: "1", MIB: value} if key == MIB else HALF | {key: value}
        yield Case(f"2 {key.rpartition('.')[2]} of {value}", spec(asked), refused=((INVALID, at(key)),), says="write")


def _rules_3_to_5() -> Iterator[Case]:
    """A partition: one, of one profile, once."""
    yield Case("3 a partition", spec(PARTITION), MIG, folded=({PART_UNITS: "190000"},))
    yield Case(
        "3 a partition whose units lie", spec(PARTITION | {PART_UNITS: "1"}), MIG, folded=({PART_UNITS: "190000"},)
    )
    faults = ((INVALID, at(PARTITIONED)),)
    yield Case("3 two partitions", spec(PARTITION | {PARTITIONED: "2"}), MIG, faults, "larger profile")
    missing = ((REQUIRED, at(f"{PARTITIONED}.mig-<profile>")),)
    yield Case("3 no profile", spec({PARTITIONED: "1"}), MIG, missing, "1g.10gb, 2g.20gb")
    yield Case("4 another profile", spec({PARTITIONED: "1", MIDDLE: "1"}), MIG, folded=({PART_UNITS: "390000"},))
    of_container = ((INVALID, ".containers[0].resources.limits"),)
    yield Case("4 two profiles in a container", spec(PARTITION | {MIDDLE: "1"}), MIG, of_container, "keep one profile")
    of_pod = ((INVALID, HERE), (INVALID, HERE))
    yield Case(
        "4 two profiles in a Pod",
        spec(PARTITION, {PARTITIONED: "1", MIDDLE: "1"}),
        MIG,
        of_pod,
        "one partition profile",
    )
    yield Case("5 a profile twice", spec(PARTITION | {SMALL: "2"}), MIG, ((INVALID, at(SMALL)),), "write 1")
    yield Case(
        "a profile that is not offered",
        spec({PARTITIONED: "1", f"{PARTITIONED}.mig-3g.40gb": "1"}),
        MIG,
        ((UNSUPPORTED, at(f"{PARTITIONED}.mig-3g.40gb")),),
        "the pool offers 1g.10gb, 2g.20gb",
    )


def _rules_6_and_7() -> Iterator[Case]:
    """One container slices; native sidecars get nothing."""
    for family, asks in ASKS.items():
        pool, folded = _pool_for(family), FOLDS[family]
        if family in ("sliced", "partitioned"):
            yield Case(f"6 {family} beside a plain container", spec(asks, {"cpu": "1"}), pool, folded=(folded, {}))
            yield Case(f"6 two {family} containers", spec(asks, asks), pool, ((INVALID, HERE),), "one container")
        key = next(iter(asks))
        yield Case(f"7 {family} beside a sidecar", spec(asks, sidecar=({"cpu": "1"},)), pool, folded=({}, folded))
        yield Case(
            f"7 {family} in a sidecar",
            spec({}, sidecar=(asks,)),
            pool,
            ((FORBIDDEN, at(key, init=True)),),
            "native sidecar",
        )


def _budgets_without_tokens() -> Iterator[Case]:
    for key in (PERCENT, MIB, CORES, SMALL):
        pool = MIG if key == SMALL else NVIDIA
        yield Case(f"only {key.rpartition('/')[2]}", spec({key: "1"}), pool, ((INVALID, at(key)),), "missing; add")
    for key, pool in ((UNITS, NVIDIA), (PART_UNITS, MIG)):
        yield Case(f"only {key.rpartition('/')[2]}", spec({key: "1"}), pool, ((FORBIDDEN, at(key)),), "leave it out")


def _values() -> Iterator[Case]:
    """A value is a whole number above zero, however it is written."""
    for family, asks in ASKS.items():
        pool, folded = _pool_for(family), FOLDS[family]
        token = next(iter(asks))
        yield Case(f"{family} of 1e0", spec(dict(asks) | {token: "1e0"}), pool, folded=(folded,))
        for value in ("0", "-1", "0.5", "100m", "1e30"):
            faults = ((INVALID, at(token)),)
            yield Case(f"{family} of {value}", spec(dict(asks) | {token: value}), pool, faults, "leave the key out")
        differs = spec({})
        differs["containers"] = [container(asks, "c0", requests={token: "2"})]
        unequal = ((INVALID, at(token, side="requests")),)
        yield Case(f"{family} with another request", differs, pool, unequal, "must equal the limit")
        same = spec({})
        same["containers"] = [container(asks, "c0", requests=asks)]
        yield Case(f"{family} with an equal request", same, pool, folded=(folded,))


def _shares() -> Iterator[Case]:
    """Several shares are several cards, so the node must have as many."""
    yield Case("three shares", spec({SHARED: "3"}, SHARE), pinned=True)
    yield Case("a share", spec(SHARE))
    faults = ((REQUIRED, ".affinity.nodeAffinity"),)
    yield Case("shares of no pool", spec({SHARED: "2"}), NOWHERE, faults, "try again")


def _pools() -> Iterator[Case]:
    """What is measured by a pool needs one, and a pool hands out what it has."""
    for family, asks in ASKS.items():
        token = next(iter(asks))
        yield Case(
            f"{family} in a pool of CPUs",
            spec(asks),
            CPUS,
            (*_unmeasured(family), (FORBIDDEN, at(token))),
            "has no accelerators",
        )
    yield Case("nothing in a pool of CPUs", spec({"cpu": "1"}), CPUS)
    yield Case("a percentage in no pool", spec(HALF), NOWHERE, folded=(sliced_into(800_000),))
    yield Case("MiB in no pool", spec({SLICED: "1", MIB: "1"}), NOWHERE, ((INVALID, at(MIB)),), 'queue "nowhere"')
    yield Case("MiB in a new pool", spec({SLICED: "1", MIB: "1"}), NEW, ((INVALID, at(MIB)),), "does not say")
    yield Case("a profile in no pool", spec(PARTITION), NOWHERE, ((INVALID, at(SMALL)),), 'queue "nowhere"')
    yield Case("a profile in a new pool", spec(PARTITION), NEW, ((INVALID, at(SMALL)),), "does not say")
    two = spec(WHOLE, {"amd.com/gpu": "1"})
    faults = ((INVALID, HERE), (FORBIDDEN, at("amd.com/gpu", 1)))
    yield Case("two manufacturers", two, NVIDIA, faults, "keep one of these")
    yield Case(
        "RDMA and visibility",
        spec(WHOLE | {"device.gpustack.ai/rdma": "1", "device.gpustack.ai/nvidia.visibility": "2"}),
    )


def _unmeasured(family: str) -> tuple[tuple[str, str], ...]:
    return ((INVALID, at(SMALL)),) if family == "partitioned" else ()


def _manufacturers() -> Iterator[Case]:
    """All nine, each with what its cards can do."""
    for row in TABLE.by_key.values():
        pool = NVIDIA if row.key == "nvidia" else f"{row.key}-cases"
        yield Case(f"{row.key} whole", spec({row.base: "1"}), pool)
        yield Case(f"{row.key} shared", spec({f"{row.base}.shared": "1"}), pool)
        yield _slice(row, pool)
        if not row.partition_kind:
            token = row.key_for(KeyKind.PARTITIONED)
            yield Case(f"{row.key} partitioned", spec({token: "1"}), pool, _never(row, token), "have no partitions")
        if row.key != "nvidia":
            yield Case(
                f"{row.key} in another's pool",
                spec({row.base: "1"}),
                NVIDIA,
                ((FORBIDDEN, at(row.base)),),
                "has accelerators of nvidia",
            )


def _slice(row: Manufacturer, pool: str) -> Case:
    token, cores = row.key_for(KeyKind.SLICED), row.key_for(KeyKind.CORES_PERCENTAGE)
    asked = spec({token: "1", row.key_for(KeyKind.MEMORY_PERCENTAGE): "25"})
    if row.slices:
        folded = {row.key_for(KeyKind.SLICED_UNITS): "400000", cores: "100"}
        return Case(f"{row.key} sliced", asked, pool, folded=(folded,))
    return Case(f"{row.key} sliced", asked, pool, ((FORBIDDEN, at(token)),), "are not sliced")


def _never(row: Manufacturer, token: str) -> tuple[tuple[str, str], ...]:
    return ((REQUIRED, at(row.key_for(KeyKind.PROFILE, "<profile>"))), (FORBIDDEN, at(token)))


CASES: tuple[Case, ...] = tuple(
    case
    for cases in (
        _rule_1,
        _rule_2,
        _rules_3_to_5,
        _rules_6_and_7,
        _budgets_without_tokens,
        _values,
        _shares,
        _pools,
        _manufacturers,
    )
    for case in cases()
)
