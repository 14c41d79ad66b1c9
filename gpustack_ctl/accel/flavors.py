"""From nodes to flavors: which ResourceFlavors and InstanceTypes the managed nodes call for.

Nodes of the same hardware (CPU, accelerator, operating system, architecture, number of cards, topology shape) are one
flavor; flavors that differ only in numbers belong to one pool. A node that carries two models of accelerator is in a
flavor of each, and, unless nodes are kept unmixed, in one of its CPU as well.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.features import AcceleratorFacts, NodeFacts
from gpustack_ctl.accel.naming import GENERIC, entrance_name, flavor_name, queue_name, topology_name
from gpustack_ctl.accel.profiles import TopologyProfile
from gpustack_ctl.accel.unit_presets import unit_preset


@dataclass(frozen=True, slots=True)
class FlavorSettings:
    """The settings that shape flavors and pools."""

    #: Nodes with accelerators also serve CPU-only workloads.
    mixed_on_node: bool = True
    #: Pools are kept apart by CPU as well as by accelerator.
    aware_cpu: bool = False


@dataclass(frozen=True, slots=True)
class FlavorPlan:
    """The wanted objects by name: complete but for ownership and server-side fields."""

    flavors: Mapping[str, dict[str, Any]]
    instance_types: Mapping[str, dict[str, Any]]


def plan_flavors(nodes: Iterable[NodeFacts], settings: FlavorSettings) -> FlavorPlan:
    """Every ResourceFlavor and derived InstanceType that the nodes call for."""
    members: dict[_Identity, list[tuple[NodeFacts, AcceleratorFacts | None]]] = defaultdict(list)
    for node in sorted(nodes, key=lambda node: node.name):
        for accelerator in node.accelerators:
            members[_Identity.of(node, accelerator)].append((node, accelerator))
        if settings.mixed_on_node or not node.accelerators:
            members[_Identity.of(node, None)].append((node, None))
    flavors: dict[str, dict[str, Any]] = {}
    instance_types: dict[str, dict[str, Any]] = {}
    for shape in sorted(members, key=lambda shape: shape.name):
        # Facts that one hardware identity may disagree on (a driver, say) are those of its first node by name.
        first = members[shape][0]
        flavors[shape.name] = _flavor(shape, len(members[shape]), *first, settings)
        pool = shape.queue(aware_cpu=settings.aware_cpu)
        if pool not in instance_types:
            instance_types[pool] = _instance_type(shape, *first, settings)
    return FlavorPlan(flavors, instance_types)


def pool_labels(*, gkey: str, akey: str | None, os: str, arch: str, aware_cpu: bool) -> dict[str, str]:
    """What a pool's InstanceType and ClusterQueue are labelled with: its hardware identity."""
    identities = {labels.accelerator(akey): "true"} if akey else {}
    if akey is None or aware_cpu:
        identities[labels.general(gkey if aware_cpu else GENERIC)] = "true"
    return {
        labels.ACCELERATABLE: "true" if akey else "false",
        **identities,
        labels.OS: os,
        labels.ARCH: arch,
    }


def pool_has_flavor(instance_type: Mapping[str, Any], flavor: Mapping[str, Any]) -> bool:
    """Whether a ResourceFlavor of ours is part of the pool that an InstanceType describes.

    Decided by what the type's spec names, not by its own name, so that a type a person made is served too. `generic`
    takes any CPU.
    """
    spec, found = instance_type.get("spec") or {}, _labels(flavor)
    akey, general = spec.get("acceleratorGroup"), spec.get("generalGroup") or GENERIC
    return (
        found.get(labels.RESOURCE_TYPE) == labels.TYPE_NODES
        and found.get(labels.ACCELERATABLE) == ("true" if akey else "false")
        and (not akey or found.get(labels.accelerator(akey)) == "true")
        and (general == GENERIC or found.get(labels.general(general)) == "true")
        and found.get(labels.OS) == spec.get("os")
        and found.get(labels.ARCH) == spec.get("arch")
    )


def describe(flavor: Mapping[str, Any]) -> dict[str, str]:
    """The InstanceType descriptors that stand in a flavor's notes."""
    notes = (flavor.get("metadata") or {}).get("annotations") or {}
    return {name: notes[labels.note(name)] for name in DESCRIPTORS if labels.note(name) in notes}


#: The descriptors that an InstanceType takes over from a flavor's notes.
DESCRIPTORS: Sequence[str] = ("manufacturer", "product", "family", "memory", "cores", "computeCapability")


@dataclass(frozen=True, slots=True)
class _Identity:
    """What nodes must have in common to be one flavor; `count` is cards, or cores where there is no accelerator."""

    gkey: str
    akey: str | None
    os: str
    arch: str
    count: int
    profile: str

    @classmethod
    def of(cls, node: NodeFacts, accelerator: AcceleratorFacts | None) -> _Identity:
        akey, count = (accelerator.akey, accelerator.count) if accelerator else (None, node.cores)
        return cls(node.gkey, akey, node.os, node.arch, count, node.profile)

    @property
    def name(self) -> str:
        return flavor_name(
            gkey=self.gkey,
            akey=self.akey,
            os=self.os,
            arch=self.arch,
            count=self.count,
            profile=self.profile,
            hostname_only=self.profile == _HOSTNAME_ONLY,
        )

    def queue(self, *, aware_cpu: bool) -> str:
        return queue_name(gkey=self.gkey, akey=self.akey, os=self.os, arch=self.arch, aware=aware_cpu)

    def attribute(self, name: str) -> str:
        """The feature label of the accelerator, or of the CPU where there is none."""
        return labels.accelerator(self.akey, name) if self.akey else labels.general(self.gkey, name)

    @property
    def labels(self) -> dict[str, str]:
        accelerator = {labels.accelerator(self.akey): "true"} if self.akey else {}
        return {labels.general(self.gkey): "true", **accelerator, labels.OS: self.os, labels.ARCH: self.arch}


_HOSTNAME_ONLY = TopologyProfile().value


def _flavor(
    shape: _Identity, nodes: int, node: NodeFacts, accelerator: AcceleratorFacts | None, settings: FlavorSettings
) -> dict[str, Any]:
    count = {shape.attribute("count"): str(shape.count)}
    selector = {**shape.labels, **count, labels.MANAGED: "true", labels.TOPOLOGY_PROFILE: shape.profile}
    if accelerator is None and not settings.mixed_on_node:
        # Otherwise the nodes that are kept for accelerators would still be chosen, their CPU being the same.
        selector[labels.ACCELERATABLE] = "false"
    notes = dict(accelerator.notes) if accelerator else {}
    if node.cpu_detail and (accelerator is None or settings.aware_cpu):
        notes["cpuDetail"] = json.dumps(node.cpu_detail, sort_keys=True, separators=(",", ":"))
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {
            "name": shape.name,
            "labels": {
                **shape.labels,
                **count,
                shape.attribute("capacity"): str(nodes * shape.count),
                labels.ACCELERATABLE: "true" if accelerator else "false",
                labels.RESOURCE_TYPE: labels.TYPE_NODES,
            },
            "annotations": {labels.note(name): value for name, value in notes.items()},
        },
        "spec": {
            "nodeLabels": selector,
            "tolerations": [{"operator": "Exists"}],
            "topologyName": topology_name(shape.profile),
        },
    }


def _instance_type(
    shape: _Identity, node: NodeFacts, accelerator: AcceleratorFacts | None, settings: FlavorSettings
) -> dict[str, Any]:
    name = shape.queue(aware_cpu=settings.aware_cpu)
    unit = unit_preset(shape.akey)
    gkey = shape.gkey if settings.aware_cpu else GENERIC
    notes = accelerator.notes if accelerator else {}
    return {
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "InstanceType",
        "metadata": {
            "name": name,
            "labels": {
                **pool_labels(gkey=gkey, akey=shape.akey, os=shape.os, arch=shape.arch, aware_cpu=settings.aware_cpu),
                labels.QUEUE_ENTRANCE: entrance_name(name),
                labels.DERIVED_FROM_NODE: "true",
            },
        },
        "spec": {
            "acceleratable": accelerator is not None,
            **({"acceleratorGroup": shape.akey} if shape.akey else {}),
            "generalGroup": gkey,
            "os": shape.os,
            "arch": shape.arch,
            "unitResources": {"cpu": unit.cpu, "ram": unit.ram},
            "localStorage": unit.local_storage,
            **{descriptor: notes[descriptor] for descriptor in DESCRIPTORS if descriptor in notes},
            **(_cpu(node, accelerator) if settings.aware_cpu and node.cpu_detail else {}),
        },
    }


def _cpu(node: NodeFacts, accelerator: AcceleratorFacts | None) -> dict[str, Any]:
    """The CPU of a pool that is kept apart by CPU: its own subject, or what goes with the accelerator."""
    detail = dict(node.cpu_detail)
    return {"accelerator": {"cpu": detail}} if accelerator else {"cpu": detail}


def _labels(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}
