"""Features: what a node says of itself in labels, written and read in one place.

The agent writes these labels; the manager groups nodes by them, and Kueue and the scheduler select on them. A label
value cannot hold everything (63 characters, no spaces), so descriptors for people come from the node's `Devices` where
that is known, and from the labels otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.naming import akey as akey_of


@dataclass(frozen=True, slots=True)
class AcceleratorFacts:
    """One model of accelerator on one node."""

    akey: str
    #: Cards of the model, whatever their health or partition mode: a sick card must not rename its flavor.
    count: int
    #: What is known of the model, in the words of `InstanceType.spec`: product, memory, cores, …
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a managed node says of itself. `profile` is the value of its topology profile."""

    name: str
    os: str
    arch: str
    profile: str
    gkey: str
    cores: int
    #: The CPU's detail as the agent noted it: manufacturer, product, family, core counts, caches.
    cpu_detail: Mapping[str, Any] = field(default_factory=dict)
    accelerators: tuple[AcceleratorFacts, ...] = ()


def feature_labels(devices_spec: Mapping[str, Any], *, gkey: str, cores: int) -> dict[str, str]:
    """The feature labels of a node with these accelerators and this CPU."""
    groups = devices_spec.get("groups") or []
    wanted = {
        labels.ACCELERATABLE: "true" if groups else "false",
        labels.general(gkey): "true",
        labels.general(gkey, "count"): str(cores),
    }
    for group in groups:
        key = akey_of(group["manufacturer"], group["id"])
        wanted[labels.accelerator(key)] = "true"
        wanted[labels.accelerator(key, "count")] = str(len(group.get("accelerators") or ()))
        for attribute, source in _DESCRIPTORS.items():
            wanted[labels.accelerator(key, attribute)] = label_value(group.get(source))
        for version, source in _VERSIONS.items():
            wanted[labels.accelerator(group["manufacturer"], version)] = label_value(group.get(source))
    return {key: value for key, value in wanted.items() if value}


def label_value(value: object) -> str:
    """`value` as a label may hold it: spaces and the like become dashes, and what is too long is cut."""
    text = "" if value in (None, 0) else str(value)
    return _NOT_IN_A_VALUE.sub("-", text)[:63].strip("-_.")


def label_count(value: str | None) -> int | None:
    """A count as a label holds it, for every gate; None when it is missing, unreadable or nothing."""
    return int(value) if value and _COUNT.fullmatch(value) else None


def node_facts(node: Mapping[str, Any], devices: Mapping[str, Any] | None) -> NodeFacts | None:
    """The facts of a Node, with its Devices where they are known.

    None while it is not managed or does not yet say its OS, architecture, CPU and topology: a flavor selects on all of
    these, so a node that lacks one could be counted and never chosen.
    """
    metadata = node.get("metadata") or {}
    found = metadata.get("labels") or {}
    gkey = identity(found, labels.GENERAL_PREFIX)
    cores = label_count(found.get(labels.general(gkey, "count"))) if gkey else None
    os, arch, profile = found.get(labels.OS), found.get(labels.ARCH), found.get(labels.TOPOLOGY_PROFILE)
    if found.get(labels.MANAGED) != "true" or not (gkey and cores and os and arch and profile):
        return None
    return NodeFacts(
        name=metadata.get("name", ""),
        os=os,
        arch=arch,
        profile=profile,
        gkey=gkey,
        cores=cores,
        cpu_detail=_json_object((metadata.get("annotations") or {}).get(labels.note("cpuDetail"))),
        accelerators=tuple(_accelerators(found, (devices or {}).get("spec") or {})),
    )


def identity(found: Mapping[str, str], prefix: str) -> str | None:
    """The first key under `prefix` that is marked true, in order of name; attributes hold other values."""
    return min(_identities(found, prefix), default=None)


def _identities(found: Mapping[str, str], prefix: str) -> Iterator[str]:
    return (key.removeprefix(prefix) for key, value in found.items() if value == "true" and key.startswith(prefix))


def _accelerators(found: Mapping[str, str], devices_spec: Mapping[str, Any]) -> Iterator[AcceleratorFacts]:
    groups = {akey_of(group["manufacturer"], group["id"]): group for group in devices_spec.get("groups") or ()}
    for key in sorted(_identities(found, labels.ACCELERATABLE_PREFIX)):
        # A count that cannot be read matches nothing: no flavor could select by it.
        if count := label_count(found.get(labels.accelerator(key, "count"))):
            yield AcceleratorFacts(key, count, dict(_notes(key, found, groups.get(key))))


def _notes(key: str, found: Mapping[str, str], group: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    manufacturer = group["manufacturer"] if group else key.partition("-")[0]
    yield "manufacturer", manufacturer
    for attribute, source in _DESCRIPTORS.items():
        value = group.get(source) if group else found.get(labels.accelerator(key, attribute))
        if value:
            yield _NOTES[attribute], f"{value}Mi" if attribute == "memory" else str(value)
    for version, source in _VERSIONS.items():
        value = group.get(source) if group else found.get(labels.accelerator(manufacturer, version))
        if value:
            yield source, str(value)


def _json_object(text: str | None) -> dict[str, Any]:
    """An annotation's JSON object; empty when it is missing or is none, for a note is never worth a node."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


#: Label attribute → field of a `Devices` group.
_DESCRIPTORS = {
    "product": "name",
    "memory": "memory",
    "cores": "cores",
    "family": "family",
    "comcap": "computeCapability",
}
_VERSIONS = {"driver-version": "driverVersion", "runtime-version": "runtimeVersion"}
#: Label attribute → descriptor of an InstanceType.
_NOTES = {"product": "product", "memory": "memory", "cores": "cores", "family": "family", "comcap": "computeCapability"}

_NOT_IN_A_VALUE = re.compile(r"[^A-Za-z0-9._-]+")
_COUNT = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
