"""Labels and annotations: the words that nodes, flavors, queues and Pods carry for one another.

They are the wire contract between the agent, the manager, Kueue and whoever reads the cluster with kubectl, so they are
spelt here once.
"""

from __future__ import annotations

MANAGED = "gpustack.ai/managed"
ACCELERATABLE = "feature.gpustack.ai/acceleratable"
TOPOLOGY_PROFILE = "topology.gpustack.ai/profile"
HOSTNAME = "kubernetes.io/hostname"
OS = "kubernetes.io/os"
ARCH = "kubernetes.io/arch"

GENERAL_PREFIX = "general.feature.gpustack.ai/"
ACCELERATABLE_PREFIX = "acceleratable.feature.gpustack.ai/"
SLICED_FIT_PREFIX = "sliced-max-free-units.fit.gpustack.ai/"
SHARED_FIT_PREFIX = "shared-free-cards.fit.gpustack.ai/"
NOTE_PREFIX = "note.gpustack.ai/"

QUEUE_ENTRANCE = "schedule.gpustack.ai/queue-entrance"
DERIVED_FROM_NODE = "schedule.gpustack.ai/derived-from-node"
QUEUE = "schedule.gpustack.ai/queue"
SAVED_STOP_POLICY = "schedule.gpustack.ai/saved-stop-policy"
PLACEMENT_PIN = "schedule.gpustack.ai/placement-pin"
EMPTY_PLAN_HOLD = "topology.gpustack.ai/empty-plan-hold"
RESOURCE_TYPE = "resource.gpustack.ai/type"
TYPE_NODES = "nodes"
TYPE_INSTANCE_TYPES = "instancetypes"

ALLOCATED = "device.gpustack.ai/accelerator.allocated"
PLANNED = "device.gpustack.ai/accelerator.planned"

KUEUE_QUEUE_NAME = "kueue.x-k8s.io/queue-name"
KUEUE_WORKLOAD = "kueue.x-k8s.io/workload"
KUEUE_PODSET = "kueue.x-k8s.io/podset"

CONTROLLED = "gpustack.ai/controlled"
ADMISSION_CHECK = "gpustack-node-devices"
ADMISSION_CHECK_CONTROLLER = "worker.gpustack.ai/node-devices"


def general(gkey: str, attribute: str = "") -> str:
    """A CPU feature label: `general(gkey)` is the identity, `general(gkey, "count")` one of its attributes."""
    return f"{GENERAL_PREFIX}{gkey}.{attribute}" if attribute else GENERAL_PREFIX + gkey


def accelerator(akey: str, attribute: str = "") -> str:
    """An accelerator feature label: `accelerator(akey)` is the identity, with an attribute one of its facts."""
    return f"{ACCELERATABLE_PREFIX}{akey}.{attribute}" if attribute else ACCELERATABLE_PREFIX + akey


def note(name: str) -> str:
    """A descriptor's annotation on a flavor."""
    return NOTE_PREFIX + name
