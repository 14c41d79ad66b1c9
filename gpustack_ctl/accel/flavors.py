"""From nodes to flavors: which ResourceFlavors and InstanceTypes the managed nodes call for.

Pure planning. Nodes that are the same hardware, by CPU, accelerator, operating system, architecture, number of cards and
topology shape, are one flavor; flavors that differ only in numbers belong to one pool. A node that carries two models of
accelerator is in a flavor of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpustack_ctl.accel.naming import GENERIC
from gpustack_ctl.accel.profiles import TopologyProfile


@dataclass(frozen=True, slots=True)
class AcceleratorFacts:
    """One model of accelerator on one node."""

    akey: str
    manufacturer: str
    #: Cards of the model, whatever their health or partition mode.
    count: int
    #: What is known of the model: product, memory, cores, family, computeCapability, driver (strings).
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a managed node says of itself."""

    name: str
    os: str
    arch: str
    gkey: str = GENERIC
    cores: int = 0
    cpu_detail: Mapping[str, Any] = field(default_factory=dict)
    accelerators: tuple[AcceleratorFacts, ...] = ()
    profile: TopologyProfile = TopologyProfile()


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


def node_facts(node: Mapping[str, Any], devices: Mapping[str, Any] | None) -> NodeFacts | None:
    """The facts of a Node, with its Devices where they are known; None when it is not managed or says no OS and arch."""
    raise NotImplementedError


def plan_flavors(nodes: Iterable[NodeFacts], settings: FlavorSettings) -> FlavorPlan:
    """Every ResourceFlavor and derived InstanceType that the nodes call for."""
    raise NotImplementedError


def queue_of_flavor(flavor: Mapping[str, Any], *, aware_cpu: bool) -> str | None:
    """The name of the pool that a ResourceFlavor belongs to; None for a flavor that is not ours."""
    raise NotImplementedError


def describe(flavor: Mapping[str, Any]) -> dict[str, Any]:
    """The InstanceType descriptors (manufacturer, product, family, memory, cores, computeCapability) in a flavor's notes."""
    raise NotImplementedError
