"""The agent does its work with the rights that deploy/rbac gives it, under the policy that guards its records."""

from collections.abc import AsyncIterator

import pytest

from gpustack_ctl.deployment import rbac
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import Forbidden
from gpustack_ctl.kube.resources import DEVICES, NODES, PODS, SECRETS
from gpustack_ctl.localcluster import LocalCluster
from gpustack_ctl.webhooks import record_policy
from tests.e2e.agent.harness import Agent, Pods
from tests.integration.deployment.access import NAMESPACE, audited, granted, kubeconfig_of, refused, requests_of

HALF = {"nvidia.com/gpu.sliced": 1, "nvidia.com/gpu.sliced.memory-percentage": 50}


@pytest.fixture
async def limited(control_plane: LocalCluster, kube: Kube, agent: Agent) -> AsyncIterator[Agent]:
    """An agent with its service account's rights, and the policy in force."""
    kinds = {record_policy.POLICIES: record_policy.policy(), record_policy.BINDINGS: record_policy.binding()}
    async with granted(kube, rbac.agent_manifests(NAMESPACE)):
        for resource, obj in kinds.items():
            await kube.apply(resource, obj, manager="test")
        kubeconfig = kubeconfig_of(control_plane, rbac.AGENT)
        limited = Agent(node=agent.node, kubeconfig=kubeconfig, kube=kube, directory=agent.directory)
        try:
            yield limited
        finally:
            await limited.stop()
            for resource in kinds:
                await kube.delete(resource, record_policy.NAME)


async def test_the_agent_needs_no_more_rights_than_it_is_given(control_plane: LocalCluster, limited: Agent, pods: Pods):
    before = await audited(control_plane)
    await limited.start()
    await pods.run("half", **HALF)
    (held,) = (await pods.record("half"))["main"]
    assert held["allocated"] == 800000
    await pods.clear()

    asked = await requests_of(control_plane, rbac.AGENT, since=before)
    assert [request for request in asked if request["verb"] == "patch" and "/pods/half" in request["requestURI"]]
    assert refused(asked) == []


async def test_the_agent_may_not_what_it_need_not(control_plane: LocalCluster, kube: Kube):
    async with (
        granted(kube, rbac.agent_manifests(NAMESPACE)),
        Kube.connect(kubeconfig=str(kubeconfig_of(control_plane, rbac.AGENT))) as limited,
    ):
        for forbidden in (
            limited.get(SECRETS, "anything", "default"),
            limited.create(PODS, {"metadata": {"name": "p", "namespace": "default"}}),
            limited.delete(PODS, "anything", "default"),
            limited.delete(DEVICES, "anything"),
            limited.patch(NODES, "anything", {"status": {}}, subresource="status"),
        ):
            with pytest.raises(Forbidden):
                await forbidden
