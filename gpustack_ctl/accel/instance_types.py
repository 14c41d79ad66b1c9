"""What an InstanceType must say when it is made, what may change later, and what is filled in for its author.

A type is the unit that gate 1 measures requests against, so it is whole from its first moment and then fixed: re-sizing
or re-pointing a pool under running work would change what that work was promised. Only creation is judged by shape. A
change is judged for being a change, so that a type which was stored under milder rules can still be renamed or switched
off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.field_errors import FieldError, forbidden, invalid, not_supported, required
from gpustack_ctl.accel.flavors import describe, pool_has_flavor, pool_labels
from gpustack_ctl.accel.naming import GENERIC, entrance_name
from gpustack_ctl.accel.units import QuantityError, quantity

Obj = Mapping[str, Any]

EDITABLE = ("displayName", "inactive")
"""The only fields of a spec that change after creation."""


def with_defaults(instance_type: Obj, *, flavors: Iterable[Obj], aware_cpu: bool) -> dict[str, Any]:
    """A new InstanceType with all that can be known for its author: the general group, what its hardware is by the
    first flavor that it matches, and the labels by which it is found. What was written stays as it was written.
    """
    spec = dict(instance_type.get("spec") or {})
    spec["generalGroup"] = spec.get("generalGroup") or GENERIC
    matching = sorted(
        (flavor for flavor in flavors if pool_has_flavor({"spec": spec}, flavor)),
        key=lambda flavor: str(flavor["metadata"]["name"]),
    )
    if matching:
        spec = {**describe(matching[0]), **spec}
        if aware_cpu:
            spec = {**_cpu_of(spec, matching[0]), **spec}
    return with_labels({**instance_type, "spec": spec}, aware_cpu=aware_cpu)


def with_labels(instance_type: Obj, *, aware_cpu: bool) -> dict[str, Any]:
    """The InstanceType with its schedule labels: the pool's identity, and the entrance by which gate 1 looks it up.

    They follow from name and spec, and a hand that edits them would lead Pods to another pool's memory. So they are put
    back with every write. A spec that names no hardware is left alone: it is about to be refused.
    """
    spec, metadata = instance_type["spec"], instance_type["metadata"]
    if not metadata.get("name") or not spec.get("os") or not spec.get("arch"):
        return dict(instance_type)
    identity = pool_labels(
        gkey=spec.get("generalGroup") or GENERIC,
        akey=spec.get("acceleratorGroup") or None,
        os=spec["os"],
        arch=spec["arch"],
        aware_cpu=aware_cpu,
    )
    own = {**identity, labels.QUEUE_ENTRANCE: entrance_name(metadata["name"])}
    foreign = {key: value for key, value in (metadata.get("labels") or {}).items() if not _identifies(key)}
    return {**instance_type, "metadata": {**metadata, "labels": {**foreign, **own}}}


def faults_of_new(instance_type: Obj, *, table: Manufacturers) -> list[FieldError]:
    """Everything that is missing or wrong in a new InstanceType, all of it at once."""
    return list(_faults(instance_type["metadata"], instance_type.get("spec") or {}, table))


def faults_of_change(old: Obj, new: Obj) -> list[FieldError]:
    """The fields that changed and must not."""
    before, after = _settled(old), _settled(new)
    changed = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    return [
        forbidden(f"spec.{name}", "is fixed; to re-size or re-point a pool, delete its type and create it anew")
        for name in changed
        if name not in EDITABLE
    ]


def _faults(metadata: Obj, spec: Obj, table: Manufacturers) -> Iterator[FieldError]:
    if not metadata.get("name"):
        yield required("metadata.name", "the pool's queue carries this name, so it cannot be generated")
    if misshapen := list(_shape_faults(spec)):
        yield from misshapen  # the schema is checked after us, so anything may stand anywhere
        return
    yield from _accelerator_faults(spec, table)
    for field in ("acceleratorGroup", "generalGroup"):
        if spec.get(field) and not _KEY.fullmatch(spec[field]):
            yield invalid(f"spec.{field}", spec[field], "must be lower-case letters, digits, - and . only")
    for field, example in (("os", "linux"), ("arch", "amd64")):
        if not spec.get(field):
            yield required(f"spec.{field}", f"name what the nodes run on, such as {example}")
    yield from _unit_faults(spec)
    yield from _storage_faults(spec.get("localStorage"))


def _shape_faults(spec: Obj) -> Iterator[FieldError]:
    for kind, said, names in _SHAPES:
        for name in names:
            if spec.get(name) is not None and not isinstance(spec[name], kind):
                yield invalid(f"spec.{name}", spec[name], f"must be {said}")


def _accelerator_faults(spec: Obj, table: Manufacturers) -> Iterator[FieldError]:
    acceleratable, group = spec.get("acceleratable"), spec.get("acceleratorGroup")
    if acceleratable is None:
        yield required("spec.acceleratable", "write true for a pool of accelerators, false for one of CPUs")
    elif acceleratable and not group:
        yield required("spec.acceleratorGroup", "name the pool's accelerator, such as nvidia-a10g")
    elif group and not acceleratable:
        yield forbidden("spec.acceleratorGroup", "only where acceleratable is true")
    elif group and table.of_akey(group) is None:
        known = ", ".join(sorted(table.by_key))
        yield not_supported("spec.acceleratorGroup", group, f"must begin with its manufacturer: {known}")


def _unit_faults(spec: Obj) -> Iterator[FieldError]:
    unit = spec.get("unitResources") or {}
    cpu, ram = unit.get("cpu"), unit.get("ram")
    if cpu in (None, ""):
        yield required("spec.unitResources.cpu", "write the CPU of one unit, such as 8")
    elif not _WHOLE.fullmatch(str(cpu)):
        yield invalid("spec.unitResources.cpu", cpu, "must be a whole number of cores, without a unit")
    elif spec.get("acceleratable") is False and str(cpu) != "1":
        yield invalid("spec.unitResources.cpu", cpu, "must be 1: a pool of CPUs is handed out core by core")
    if ram in (None, ""):
        yield required("spec.unitResources.ram", "write the memory of one unit, such as 64Gi")
    elif not _positive(ram):
        yield invalid("spec.unitResources.ram", ram, "must be an amount of memory above zero, such as 64Gi")


def _storage_faults(storage: object) -> Iterator[FieldError]:
    if storage in (None, ""):
        yield required("spec.localStorage", "write the local storage of one unit, such as 100Gi")
    elif not _GIBIBYTES.fullmatch(str(storage)):
        yield invalid("spec.localStorage", storage, "must be a whole number of Gi, such as 100Gi")


def _positive(value: object) -> bool:
    try:
        return quantity(value) > 0
    except QuantityError:
        return False


def _settled(instance_type: Obj) -> dict[str, Any]:
    """A spec for comparison: what says nothing is as good as absent, and no general group means `generic`."""
    spec = {name: value for name, value in (instance_type.get("spec") or {}).items() if value not in (None, "", {})}
    return {**spec, "generalGroup": spec.get("generalGroup", GENERIC)}


def _cpu_of(spec: Obj, flavor: Obj) -> dict[str, Any]:
    """The CPU in a flavor's note, where a type of such a pool keeps it; nothing when there is no readable note."""
    note = (flavor["metadata"].get("annotations") or {}).get(labels.note("cpuDetail"))
    try:
        detail = json.loads(note or "null")
    except ValueError:
        return {}
    if not isinstance(detail, dict):
        return {}
    return {"accelerator": {"cpu": detail}} if spec.get("acceleratorGroup") else {"cpu": detail}


def _identifies(label: str) -> bool:
    """Whether a label says what a pool is: of those, only the true ones stay."""
    return label.startswith((labels.ACCELERATABLE_PREFIX, labels.GENERAL_PREFIX))


_SHAPES: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (bool, "true or false", ("acceleratable",)),
    (str, "text", ("acceleratorGroup", "generalGroup", "os", "arch")),
    (Mapping, "an object with cpu and ram", ("unitResources",)),
)
_KEY = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)
_WHOLE = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
_GIBIBYTES = re.compile(r"[1-9][0-9]{0,8}Gi", re.ASCII)
