"""Pods, Workloads and queues as the API server gives them, no longer than a gate reads them."""

from typing import Any

from gpustack_ctl.accel.labels import ADMISSION_CHECK, KUEUE_QUEUE_NAME, KUEUE_WORKLOAD

QUEUE, FLAVOR, ENTRANCE = "gpustack--nvidia-a10g-linux-amd64", "a10g-2d", "gpustack-fnv64-c4680bb149644f1c"
CREDITS = "credits.gpustack.ai/nvidia"
HALF = {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-percentage": "50"}
FOLDED = {**HALF, "nvidia.com/gpu.sliced.cores-percentage": "100", "nvidia.com/gpu.sliced.units": "800k"}


def spec(limits: dict[str, str] | None = None) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": {"limits": FOLDED if limits is None else limits}}]}


def pod(name: str = "half", *, limits: dict[str, str] | None = None, queue: str = ENTRANCE, **fields: Any) -> Any:
    """A Pod; `fields` are annotations, status, owners and what else its spec says."""
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "labels": {KUEUE_QUEUE_NAME: queue} if queue else {},
        "annotations": fields.pop("annotations", {}),
        "ownerReferences": [{"uid": owner} for owner in fields.pop("owners", ())],
    }
    status = fields.pop("status", {})
    return {"metadata": metadata, "spec": {**spec(limits), **fields}, "status": status}


def workload(
    *,
    reserved: str | None = None,
    state: dict[str, Any] | None = None,
    nodes: tuple[str, ...] = ("gpu-1",),
    owners: tuple[str, ...] = ("uid-half",),
    count: int = 1,
    limits: dict[str, str] | None = None,
    conditions: dict[str, str] | None = None,
    **fields: Any,
) -> Any:
    """A Workload. `reserved` is Kueue's message while it has no quota; without one it has, on `nodes`."""
    kinds = {"QuotaReserved": "False" if reserved else "True", **(conditions or {})}
    status: dict[str, Any] = {
        "conditions": [{"type": kind, "status": says, "message": reserved or ""} for kind, says in kinds.items()]
    }
    if state is not None:
        status["admissionChecks"] = [{"name": ADMISSION_CHECK, **state}]
    if reserved is None:
        part = {
            "domainCount": len(nodes),
            "valuesPerLevel": [{"individual": {"roots": list(nodes)}}],
            "podCounts": {"universal": count},
        }
        assigned = {
            "name": "main",
            "count": count * len(nodes),
            "flavors": {CREDITS: FLAVOR},
            "resourceUsage": {CREDITS: f"{800 * count}k"},
            "topologyAssignment": {"levels": ["kubernetes.io/hostname"], "slices": [part]},
        }
        status["admission"] = {"clusterQueue": QUEUE, "podSetAssignments": [assigned]}
    return {
        "metadata": {
            "name": "pod-half",
            "namespace": "team",
            "uid": "uid-workload",
            "annotations": fields.pop("annotations", {}),
            "ownerReferences": [{"uid": owner} for owner in owners],
        },
        "spec": {
            "queueName": ENTRANCE,
            "podSets": [{"name": "main", "count": count, "template": {"spec": spec(limits)}}],
            **fields,
        },
        "status": status,
    }


def local_queue(**fields: Any) -> Any:
    metadata = {"name": ENTRANCE, "namespace": "team"}
    return {"kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": QUEUE, **fields}}


def cluster_queue(*, cards: int = 2, reserved: str = "0", **fields: Any) -> Any:
    quota = {"name": CREDITS, "nominalQuota": str(cards * 1_600_000)}
    return {
        "kind": "ClusterQueue",
        "metadata": {"name": QUEUE},
        "spec": {"resourceGroups": [{"flavors": [{"name": FLAVOR, "resources": [quota]}]}], **fields},
        "status": {"flavorsReservation": [{"name": FLAVOR, "resources": [{"name": CREDITS, "total": reserved}]}]},
    }


def of_workload(name: str) -> dict[str, str]:
    return {KUEUE_WORKLOAD: name}
