"""Kueue's own configuration, as the gates need it.

Gate 2 is Kueue with prices: the transformations below turn each vendor's requests into credit units, and they are spelt
from the same table that the Pod webhook folds by, so the two cannot charge differently. What else is set, is set on
purpose and says why; the reasons travel into the file that is deployed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel.families import Manufacturers, transformations


@dataclass(frozen=True, slots=True)
class Choice:
    """One top-level field of the Configuration, and why it is what it is."""

    field: str
    value: Any
    reason: str


def kueue_configuration(table: Manufacturers) -> dict[str, Any]:
    """The whole Configuration (`config.kueue.x-k8s.io/v1beta2`)."""
    head = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    return head | {choice.field: choice.value for choice in choices(table)}


def choices(table: Manufacturers) -> tuple[Choice, ...]:
    """The fields in the order in which they are read best: what is ours first, what Kueue ships with last."""
    return (
        Choice(
            "integrations",
            {"frameworks": ["batch/job", "pod"]},
            "The kinds whose requests our webhook folds. Any other kind that is turned on here asks for no credits, "
            "and only the device plugin stops it.",
        ),
        Choice(
            "resources",
            {"quotaCheckStrategy": "IgnoreUndeclared", "transformations": transformations(table)},
            "A pool's queue declares one resource, its vendor's credits or cpu, and must not refuse a Pod for the "
            "memory that it asks for besides. The transformations are what an accelerator costs: 1600000 credits "
            "whole, 160000 for a share, and slices and partitions by the units that our webhook folds them into.",
        ),
        Choice(
            "featureGates",
            {"AssignQueueLabelsForPods": False, "TopologyAwareScheduling": True},
            "Queue names are longer than a label's 63 characters, so Kueue must not copy them onto Pods. Topology "
            "gives every Workload its nodes at reservation, and gate 3 judges exactly those.",
        ),
        Choice(
            "waitForPodsReady",
            {
                "timeout": "30m",
                "recoveryTimeout": "30m",
                "blockAdmission": False,
                "requeuingStrategy": {"timestamp": "Eviction", "backoffBaseSeconds": 60, "backoffMaxSeconds": 3600},
            },
            "Kueue's own default, said aloud: a Workload whose Pods are not ready half an hour after admission gives "
            "its cards back. Raise it where images or models take longer to arrive. Nobody else waits for it.",
        ),
        Choice(
            "clientConnection",
            {"qps": 300, "burst": 500},
            "Kueue's own values.",
        ),
        Choice("controller", {"groupKindConcurrency": _CONCURRENCY}, "Kueue's own values."),
        Choice("health", {"healthProbeBindAddress": ":8081"}, "Kueue's own value; its chart probes this port."),
        Choice("metrics", {"bindAddress": ":8443"}, "Kueue's own value."),
        Choice("webhook", {"port": 9443}, "Kueue's own value."),
        Choice(
            "leaderElection",
            {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
            "Kueue's own values; the name is the lease that its replicas share.",
        ),
    )


_CONCURRENCY = {
    "Job.batch": 5,
    "Pod": 5,
    "Workload.kueue.x-k8s.io": 10,
    "LocalQueue.kueue.x-k8s.io": 5,
    "ClusterQueue.kueue.x-k8s.io": 5,
    "ResourceFlavor.kueue.x-k8s.io": 1,
}
