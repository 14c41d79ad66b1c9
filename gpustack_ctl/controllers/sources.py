"""The informers that the manager's controllers read: one watch per resource, whoever wants it."""

from dataclasses import dataclass

from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.controllers.slim import slim_node, slim_pod
from gpustack_ctl.kube.informer import Informer, Informers
from gpustack_ctl.kube.objects import Obj, annotations_of, deleting, labels_of
from gpustack_ctl.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    DEVICES,
    INSTANCE_TYPES,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    SETTINGS,
    TOPOLOGIES,
    WORKLOADS,
)


@dataclass(frozen=True, slots=True)
class Sources:
    """Every informer by what it holds."""

    nodes: Informer
    pods: Informer
    namespaces: Informer
    devices: Informer
    instance_types: Informer
    settings: Informer
    workloads: Informer
    cluster_queues: Informer
    local_queues: Informer
    flavors: Informer
    topologies: Informer
    checks: Informer

    @classmethod
    def of(cls, informers: Informers) -> "Sources":
        return cls(
            nodes=informers.of(NODES, keep=slim_node),
            pods=informers.of(PODS, keep=slim_pod),
            namespaces=informers.of(NAMESPACES),
            devices=informers.of(DEVICES),
            instance_types=informers.of(INSTANCE_TYPES),
            settings=informers.of(SETTINGS),
            workloads=informers.of(WORKLOADS),
            cluster_queues=informers.of(CLUSTER_QUEUES),
            local_queues=informers.of(LOCAL_QUEUES),
            flavors=informers.of(RESOURCE_FLAVORS),
            topologies=informers.of(TOPOLOGIES),
            checks=informers.of(ADMISSION_CHECKS),
        )


def labels_changed(old: Obj | None, new: Obj | None) -> bool:
    """Whether an object came, went, or carries other labels: what most of the chain cares about.

    Nodes report every few seconds; without this every report would wake everybody.
    """
    if old is None or new is None:
        return True
    return labels_of(old) != labels_of(new)


def spec_changed(old: Obj | None, new: Obj | None) -> bool:
    """Whether an object came, went, began to go, or is asked for differently."""
    if old is None or new is None:
        return True
    return any(old["metadata"].get(field) != new["metadata"].get(field) for field in _ASKED)


def claim_changed(old: Obj | None, new: Obj | None) -> bool:
    """Whether a Pod now claims other cards: it was bound, recorded, finished, or went away."""
    return _claim(old) != _claim(new)


def _claim(pod: Obj | None) -> tuple[object, ...] | None:
    if pod is None:
        return None
    phase = (pod.get("status") or {}).get("phase")
    return pod["spec"].get("nodeName"), phase, annotations_of(pod).get(ALLOCATED), deleting(pod)


_ASKED = ("generation", "deletionTimestamp", "labels", "annotations", "finalizers")
