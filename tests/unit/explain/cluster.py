"""A cluster as the informers would hold it, filled by hand."""

import itertools
from collections.abc import Mapping
from typing import Any

from gpustack_ctl.accel.features import feature_labels
from gpustack_ctl.accel.units import M
from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.kube import resources
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.reflector import Selection
from gpustack_ctl.kube.resources import Resource

_RESOURCES: Mapping[str, Resource] = {
    "nodes": resources.NODES,
    "pods": resources.PODS,
    "namespaces": resources.NAMESPACES,
    "devices": resources.DEVICES,
    "instance_types": resources.INSTANCE_TYPES,
    "settings": resources.SETTINGS,
    "workloads": resources.WORKLOADS,
    "cluster_queues": resources.CLUSTER_QUEUES,
    "local_queues": resources.LOCAL_QUEUES,
    "flavors": resources.RESOURCE_FLAVORS,
    "topologies": resources.TOPOLOGIES,
    "checks": resources.ADMISSION_CHECKS,
}
_version = itertools.count(1)


def sources(**objects: list[Any]) -> Sources:
    informers = {name: Informer(Selection(resource)) for name, resource in _RESOURCES.items()}
    for name, held in objects.items():
        versioned = [{**obj, "metadata": {**obj["metadata"], "resourceVersion": "1"}} for obj in held]
        informers[name].replace(versioned, next(_version))
    return Sources(**informers)


def devices(node: str, *, cards: int, taken: Mapping[int, tuple[int, int]] | None = None) -> Any:
    """A node's A10Gs; `taken`: mode and units by index, as its agent published them."""
    held = taken or {}
    accelerators = [
        {"id": f"{node}-{index}", "index": index, "status": {"logicalSliced": {"count": 128}}} for index in range(cards)
    ]
    rows = [
        {
            "id": f"{node}-{index}",
            "index": index,
            "mode": held.get(index, (0, 0))[0],
            "allocated": held.get(index, (0, 0))[1],
            "remaining": M - held.get(index, (0, 0))[1],
            "allocatedSlices": int(held.get(index, (0, 0))[0] == 3),
        }
        for index in range(cards)
    ]
    group = {"id": "a10g", "manufacturer": "nvidia"}
    return {
        "metadata": {"name": node},
        "spec": {"groups": [{**group, "memory": 24576, "accelerators": accelerators}]},
        "status": {"groups": [{**group, "accelerators": rows}]},
    }


def node(name: str, *, cards: int) -> Any:
    labels = feature_labels(devices(name, cards=cards)["spec"], gkey="generic", cores=32)
    return {"metadata": {"name": name, "labels": labels}}


def flavor(name: str, *, cards: int) -> Any:
    identity = "acceleratable.feature.gpustack.ai/nvidia-a10g"
    return {"metadata": {"name": name}, "spec": {"nodeLabels": {identity: "true", f"{identity}.count": str(cards)}}}


def instance_type(name: str) -> Any:
    views = {"onceMaxRequest": "1", "remaining": "2", "capacity": "4"}
    return {
        "metadata": {"name": name},
        "spec": {"acceleratorGroup": "nvidia-a10g", "manufacturer": "nvidia", "memory": "24576Mi"},
        "status": {
            "entrance": "entrance",
            "phase": "Active",
            "accelerator": views,
            "printed": {"accelerator": "1/2 2/20 100/200 0/0", "cpu": "8/16"},
        },
    }
