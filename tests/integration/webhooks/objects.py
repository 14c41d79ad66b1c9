"""Pods and Jobs that ask for accelerators."""

from typing import Any

from gpustack_ctl.kube.objects import Obj

HALF = {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-percentage": "50"}


def spec(limits: dict[str, str]) -> Obj:
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    return {"restartPolicy": "Never", "containers": [container]}


def pod(name: str, namespace: str, queue: str | None, limits: dict[str, str], **metadata: Any) -> Obj:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels, **metadata}, "spec": spec(limits)}


def job(name: str, namespace: str, queue: str, limits: dict[str, str], **metadata: Any) -> Obj:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {"suspend": True, "template": {"metadata": metadata, "spec": spec(limits)}},
    }


def limits_of(pod_spec: Obj) -> dict[str, str]:
    limits: dict[str, str] = pod_spec["containers"][0]["resources"]["limits"]
    requests: dict[str, str] = pod_spec["containers"][0]["resources"].get("requests", {})
    assert requests.items() <= limits.items()
    return limits
