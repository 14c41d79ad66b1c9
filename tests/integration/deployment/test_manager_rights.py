"""The manager does its work with the rights that deploy/rbac gives it, and is refused nothing on the way."""

from collections.abc import AsyncIterator

import anyio
import pytest

from gpustack_ctl import manager
from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.accel.records import Entry, format_record
from gpustack_ctl.accel.units import percentage_units
from gpustack_ctl.deployment import rbac
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import Forbidden
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import Obj, is_true
from gpustack_ctl.kube.resources import CLUSTER_QUEUES, DEVICES, EVENTS, INSTANCE_TYPES, NODES, PODS, SECRETS, WORKLOADS
from gpustack_ctl.localcluster import LocalCluster
from gpustack_ctl.telemetry.health import Health
from gpustack_ctl.webhooks.run import WebhookConfig
from tests.integration.controllers.stage import Pool, Stage, a_pool, pod, until, workload_of
from tests.integration.deployment.access import NAMESPACE, audited, granted, kubeconfig_of, refused, requests_of
from tests.integration.webhooks.replica import free_port, unregister


@pytest.fixture
async def limited(control_plane: LocalCluster, stage: Stage) -> AsyncIterator[Kube]:
    """The manager as its chart runs it, leader election included; yields its own connection."""
    port = free_port()
    webhook = WebhookConfig(port=port, host="127.0.0.1", url=f"https://127.0.0.1:{port}", namespace=NAMESPACE)
    config = manager.ManagerConfig(webhook=webhook, namespace=NAMESPACE, leader_elect=True)
    kubeconfig = str(kubeconfig_of(control_plane, rbac.MANAGER))
    async with (
        granted(stage.kube, rbac.manager_manifests(NAMESPACE)),
        Kube.connect(kubeconfig=kubeconfig) as kube,
        anyio.create_task_group() as tasks,
    ):
        informers = Informers(kube)
        await tasks.start(informers.run)
        await tasks.start(manager.run, config, kube, informers, Health())
        try:
            yield kube
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await unregister(stage.kube)


HALF = {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-percentage": "50"}


async def active(kube: Kube, pool: Pool) -> Obj | None:
    queue = await kube.get(CLUSTER_QUEUES, pool.queue)
    return queue if is_true(queue, "Active") else None


async def test_the_manager_needs_no_more_rights_than_it_is_given(
    control_plane: LocalCluster,
    stage: Stage,
    limited: Kube,
    namespace: str,
):
    before = await audited(control_plane)
    pool = a_pool()
    node = await stage.add_node(pool, cards=1)
    await until("the queue is Active", lambda: active(stage.kube, pool), seconds=20)
    await stage.kube.create(PODS, holding_most(pool, node, namespace))
    await until("a folded Pod", lambda: _folded(stage.kube, pool, namespace), seconds=10)
    await until("an event that tells why it is held", lambda: _told(stage.kube, namespace), seconds=20)
    await stage.kube.delete(PODS, "holder", namespace, grace_period=0)
    await until("a Workload that all checks let pass", lambda: _admitted(stage.kube, namespace), seconds=40)
    await stage.kube.delete(PODS, "half", namespace, grace_period=0)
    await stage.nodes.remove(node)
    await until("the node's ledger is gone", lambda: stage.gone(DEVICES, node), seconds=10)
    await stage.kube.delete(INSTANCE_TYPES, pool.queue)
    await until("the pool is gone", lambda: stage.gone(CLUSTER_QUEUES, pool.queue), seconds=20)

    asked = await requests_of(control_plane, rbac.MANAGER, since=before)
    written = {
        request["objectRef"]["resource"] for request in asked if request["verb"] in ("create", "patch", "delete")
    }
    assert written >= {"nodes", "devices", "clusterqueues", "localqueues", "resourceflavors", "workloads", "events"}
    assert refused(asked) == []


async def test_the_manager_may_not_what_it_need_not(limited: Kube, namespace: str):
    for forbidden in (
        limited.get(SECRETS, "anything", namespace),
        limited.get(SECRETS, "anything", NAMESPACE),
        limited.create(PODS, {"metadata": {"name": "p", "namespace": namespace}}),
        limited.delete(NODES, "anything"),
        limited.delete(WORKLOADS, "anything", namespace),
        limited.patch(DEVICES, "anything", {"status": {}}, subresource="status"),
    ):
        with pytest.raises(Forbidden):
            await forbidden


def holding_most(pool: Pool, node: str, namespace: str) -> Obj:
    """A Pod that an agent has given 60 % of the node's card, beside all queues."""
    entry = Entry(pool.model, "nvidia", f"GPU-{node}-0", 0, Mode.SLICED, percentage_units(60))
    annotations = {ALLOCATED: format_record({"main": [entry]})}
    return {
        "metadata": {"name": "holder", "namespace": namespace, "annotations": annotations},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "busybox"}]},
    }


async def _folded(kube: Kube, pool: Pool, namespace: str) -> bool:
    stored = await kube.create(PODS, pod(pool, namespace, "half", HALF))
    return "nvidia.com/gpu.sliced.units" in stored["spec"]["containers"][0]["resources"]["limits"]


async def _admitted(kube: Kube, namespace: str) -> bool:
    workload = await workload_of(kube, namespace, "half")
    return workload is not None and is_true(workload, "Admitted")


async def _told(kube: Kube, namespace: str) -> bool:
    return any(event["reason"] == "AcceleratorsHeld" for event in await kube.list(EVENTS, namespace))
