"""What Kueue makes of templates: a Job, a group of Pods and a Deployment's Pods are charged and checked as Pods are."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpustack_ctl.accel.units import M
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj, is_true, name_of
from gpustack_ctl.kube.resources import JOBS, PODS, WORKLOADS, Resource
from tests.integration.controllers.stage import Pool, Stage, pod, until
from tests.integration.controllers.test_admission_check import open_pool

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")

HALF = {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-percentage": "50"}
SIX_GIB = {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-mib": "6144"}
SHARE = {"nvidia.com/gpu.shared": "1"}
WHOLE = {"nvidia.com/gpu": "1"}


def template(pool: Pool, namespace: str, limits: Mapping[str, str], **metadata: Any) -> Obj:
    made = pod(pool, namespace, "template", limits)
    return {"metadata": metadata, "spec": made["spec"]}


async def admitted(kube: Kube, namespace: str, count: int = 1) -> list[Obj]:
    """The namespace's Workloads, once there are so many and all are admitted."""

    async def look() -> list[Obj]:
        found = await kube.list(WORKLOADS, namespace)
        return found if len(found) == count and all(is_true(each, "Admitted") for each in found) else []

    return await until(f"{count} admitted Workloads", look, seconds=20)


def charged(workload: Obj) -> int:
    """What Kueue charges the pool, over all PodSets."""
    assigned = workload["status"]["admission"]["podSetAssignments"]
    return sum(_number(each["resourceUsage"]["credits.gpustack.ai/nvidia"]) for each in assigned)


def _number(quantity: str) -> int:
    return int(quantity.removesuffix("k")) * (1000 if quantity.endswith("k") else 1)


def checks(workload: Obj) -> list[tuple[str, str]]:
    return [(check["name"], check["state"]) for check in workload["status"]["admissionChecks"]]


@pytest.mark.parametrize(
    ("limits", "price"),
    [(HALF, M // 2), (SIX_GIB, M // 4), (SHARE, M // 10), (WHOLE, M)],
    ids=("half", "mib", "share", "whole"),
)
async def test_a_job_asks_for_the_credits_of_its_template(
    managed: Stage, namespace: str, limits: Mapping[str, str], price: int
) -> None:
    pool, _ = await open_pool(managed, cards=2)
    metadata = pod(pool, namespace, "train", {})["metadata"]
    spec = {"parallelism": 2, "completions": 2, "suspend": True, "template": template(pool, namespace, limits)}
    await until("the Job is let in", lambda: managed.kube.create(JOBS, {"metadata": metadata, "spec": spec}))
    (workload,) = await admitted(managed.kube, namespace)
    assert charged(workload) == 2 * price
    assert checks(workload) == [("gpustack-node-devices", "Ready")]


async def test_a_group_of_pods_asks_for_the_credits_of_all_its_pods(managed: Stage, namespace: str) -> None:
    pool, _ = await open_pool(managed, cards=2)
    for number in range(3):
        made = pod(pool, namespace, f"worker-{number}", HALF)
        made["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "group"
        made["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "3"}
        await until("the Pod is let in", lambda made=made: managed.kube.create(PODS, made))
    (workload,) = await admitted(managed.kube, namespace)
    assert sum(pod_set["count"] for pod_set in workload["spec"]["podSets"]) == 3
    assert charged(workload) == 3 * M // 2
    assert checks(workload) == [("gpustack-node-devices", "Ready")]


async def test_each_pod_of_a_deployment_asks_for_its_own_credits(managed: Stage, namespace: str) -> None:
    pool, _ = await open_pool(managed, cards=2)
    labels = pod(pool, namespace, "web", {})["metadata"]["labels"] | {"app": "web"}
    made = template(pool, namespace, HALF, labels=labels)
    made["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": made}
    await managed.kube.create(DEPLOYMENTS, {"metadata": {"name": "web", "namespace": namespace}, "spec": spec})
    workloads = await admitted(managed.kube, namespace, 3)
    assert [charged(workload) for workload in workloads] == [M // 2] * 3
    assert [checks(workload) for workload in workloads] == [[("gpustack-node-devices", "Ready")]] * 3
    await managed.kube.delete(DEPLOYMENTS, "web", namespace)
    for each in await managed.kube.list(PODS, namespace):
        await managed.kube.delete(PODS, name_of(each), namespace, grace_period=0)


async def test_a_job_that_gets_its_queue_from_its_template_is_folded_as_well(managed: Stage, namespace: str) -> None:
    """The API server gives a Job without labels those of its template, before it asks any webhook."""
    pool, _ = await open_pool(managed, cards=1)
    labels = pod(pool, namespace, "train", {})["metadata"]["labels"]
    made = {
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {"template": template(pool, namespace, HALF, labels=labels)},
    }
    await until("the Job is let in", lambda: managed.kube.create(JOBS, made))
    (workload,) = await admitted(managed.kube, namespace)
    assert charged(workload) == M // 2
