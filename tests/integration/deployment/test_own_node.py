"""An agent with the token of its Pod, and what it may write of its own node and of another."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
import yaml

from gpustack_ctl.deployment import own_node, rbac
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import Forbidden
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import DEVICES, NODES, PODS, Resource
from gpustack_ctl.localcluster import LocalCluster
from gpustack_ctl.webhooks.record_policy import BINDINGS, POLICIES
from tests.integration.controllers.stage import until
from tests.integration.deployment.access import NAMESPACE, granted

OWN, OTHER = "own-node", "other-node"


@pytest.fixture
async def agent(control_plane: LocalCluster, kube: Kube, namespace: str, tmp_path: Path) -> AsyncIterator[Kube]:
    """As the DaemonSet's Pod on one of two nodes, under the policy; each node has a Pod that it may hold cards for."""
    kinds = {POLICIES: own_node.policy(NAMESPACE), BINDINGS: own_node.binding()}
    async with granted(kube, rbac.agent_manifests(NAMESPACE)):
        for resource, obj in kinds.items():
            await kube.apply(resource, obj, manager="test")
        for node in (OWN, OTHER):
            await kube.create(NODES, {"metadata": {"name": node}})
            await kube.create(PODS, bound(f"pod-of-{node}", namespace, node))
        await kube.create(PODS, bound("agent", NAMESPACE, OWN, serviceAccountName=rbac.AGENT))
        kubeconfig = with_token(control_plane, await token(kube), tmp_path / "agent.kubeconfig")
        async with Kube.connect(kubeconfig=str(kubeconfig)) as agent:
            await until("the policy in force", lambda: in_force(agent, namespace), seconds=20)
            yield agent
        with anyio.CancelScope(shield=True):
            await kube.delete(PODS, "agent", NAMESPACE, grace_period=0)
            for node in (OWN, OTHER):
                await kube.delete(PODS, f"pod-of-{node}", namespace, grace_period=0)
                await kube.delete(DEVICES, node)
                await kube.delete(NODES, node)
            for resource in kinds:
                await kube.delete(resource, own_node.NAME)


def bound(name: str, namespace: str, node: str, **spec: str) -> Obj:
    containers = [{"name": "main", "image": "busybox"}]
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": node, "containers": containers, **spec},
    }


async def token(kube: Kube) -> str:
    """What a kubelet would mount into the agent's Pod."""
    requests = Resource("", "v1", f"serviceaccounts/{rbac.AGENT}/token", "TokenRequest")
    ref = {"kind": "Pod", "apiVersion": "v1", "name": "agent"}
    spec = {"audiences": [], "boundObjectRef": ref}
    answer = await kube.create(
        requests, {"apiVersion": "authentication.k8s.io/v1", "metadata": {"namespace": NAMESPACE}, "spec": spec}
    )
    issued: str = answer["status"]["token"]
    return issued


def with_token(cluster: LocalCluster, issued: str, file: Path) -> Path:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": issued}} for user in config["users"]]
    file.write_text(yaml.safe_dump(config))
    return file


async def in_force(agent: Kube, namespace: str) -> bool:
    try:
        await agent.patch(PODS, f"pod-of-{OTHER}", {"metadata": {"labels": {"probe": "1"}}}, namespace=namespace)
    except Forbidden as refusal:
        return own_node.NAME in refusal.message
    return False


def ledger(node: str) -> Obj:
    return {"apiVersion": DEVICES.api_version, "kind": DEVICES.kind, "metadata": {"name": node}, "spec": {"groups": []}}


async def test_an_agent_writes_to_its_own_node_and_to_no_other(agent: Kube, namespace: str):
    note = {"metadata": {"annotations": {"a": "b"}}}
    await agent.patch(PODS, f"pod-of-{OWN}", note, namespace=namespace)
    await agent.patch(NODES, OWN, note)
    await agent.apply(DEVICES, ledger(OWN), manager="agent")
    status = {key: value for key, value in ledger(OWN).items() if key != "spec"} | {"status": {"groups": []}}
    await agent.apply(DEVICES, status, manager="agent", subresource="status")
    said = f'an agent of node "{OWN}" writes nothing of node "{OTHER}"'
    for forbidden in (
        agent.patch(PODS, f"pod-of-{OTHER}", note, namespace=namespace),
        agent.patch(NODES, OTHER, note),
        agent.apply(DEVICES, ledger(OTHER), manager="agent"),
    ):
        with pytest.raises(Forbidden, match=said):
            await forbidden


async def test_an_agent_whose_token_names_no_node_writes_nothing(
    control_plane: LocalCluster, agent: Kube, namespace: str
):
    user = f"system:serviceaccount:{NAMESPACE}:{rbac.AGENT}"
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig_for(user))) as nowhere:
        with pytest.raises(Forbidden, match='an agent of node "" writes nothing'):
            await nowhere.patch(PODS, f"pod-of-{OWN}", {"metadata": {"labels": {"a": "b"}}}, namespace=namespace)
