"""Pools: which nodes, and which of their cards, stand behind an InstanceType.

A pool selects by labels: operating system, architecture, managed, and the CPU or accelerator that its spec names. A
`Devices` carries its node's labels, so one selector serves for both. A node may carry several models of accelerator; of
those, only the pool's own model counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.naming import GENERIC
from gpustack_ctl.kube.objects import Obj, is_true, labels_of


@dataclass(frozen=True, slots=True)
class PoolSelector:
    """The labels that a pool's nodes carry, and those that they must not."""

    required: Mapping[str, str]
    akey: str | None

    def matches(self, obj: Obj) -> bool:
        """Whether a Node, or the Devices of one, belongs to the pool."""
        return self.required.items() <= labels_of(obj).items()


def selector_of(instance_type: Obj, *, mixed_on_node: bool) -> PoolSelector:
    """The selector of a pool. Where nodes are not mixed, a pool of CPUs has no node with accelerators."""
    spec = instance_type["spec"]
    akey = spec.get("acceleratorGroup") or None
    general = spec.get("generalGroup") or GENERIC
    required = {labels.MANAGED: "true", labels.OS: spec["os"], labels.ARCH: spec["arch"]}
    if akey:
        required[labels.accelerator(akey)] = "true"
    elif not mixed_on_node:
        required[labels.ACCELERATABLE] = "false"
    if general != GENERIC:
        required[labels.general(general)] = "true"
    return PoolSelector(required, akey)


def ready(node: Obj) -> bool:
    """Whether Pods can start on the node: only such nodes count as CPU capacity."""
    return is_true(node, "Ready") and not node.get("spec", {}).get("unschedulable")
