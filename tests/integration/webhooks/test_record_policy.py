"""Who may write an allocation record, asked of the API server as the people who might."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio
import pytest

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import ApiError, Forbidden
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import PODS, Resource
from gpustack_ctl.localcluster import LocalCluster
from gpustack_ctl.webhooks.record_policy import NAME, POLICIES
from tests.integration.webhooks.objects import pod
from tests.integration.webhooks.replica import Replica, until

RECORD = "device.gpustack.ai/accelerator.allocated"
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
GRANTS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)

_PODS = {
    "apiGroups": [""],
    "resources": [
        *("pods", "pods/status", "pods/binding", "bindings"),
        *("pods/ephemeralcontainers", "pods/resize"),
    ],
    "verbs": ["*"],
}
_LEDGERS = {"apiGroups": ["worker.gpustack.ai"], "resources": ["devices/status"], "verbs": ["update"]}


@dataclass(frozen=True, slots=True)
class People:
    tenant: Kube
    agent: Kube


@pytest.fixture
async def people(control_plane: LocalCluster, kube: Kube, namespace: str, replica: Replica) -> AsyncIterator[People]:
    """Both may do anything to Pods; one of them may update ledgers as well."""
    rules: dict[str, list[Obj]] = {"tenant": [_PODS], "agent": [_PODS, _LEDGERS]}
    async with AsyncExitStack() as stack:
        clients = {}
        for who, allowed in rules.items():
            user = f"{who}-{namespace}"
            await kube.create(ROLES, {"metadata": {"name": user}, "rules": allowed})
            subject = {"kind": "User", "name": user, "apiGroup": ROLES.group}
            role = {"kind": "ClusterRole", "name": user, "apiGroup": ROLES.group}
            await kube.create(GRANTS, {"metadata": {"name": user}, "subjects": [subject], "roleRef": role})
            kubeconfig = str(control_plane.kubeconfig_for(user))
            clients[who] = await stack.enter_async_context(Kube.connect(kubeconfig=kubeconfig))
        people = People(**clients)
        await until("the policy in force", lambda: _in_force(kube, people.tenant, namespace))
        yield people
        for user in (f"{who}-{namespace}" for who in rules):
            await kube.delete(GRANTS, user)
            await kube.delete(ROLES, user)


async def _in_force(kube: Kube, tenant: Kube, namespace: str) -> bool:
    await kube.get(POLICIES, NAME)
    try:
        await tenant.create(PODS, recorded("probe", namespace), dry_run=True)
    except Forbidden as refusal:
        return NAME in refusal.message
    except ApiError:
        return False  # RBAC has not heard of the tenant yet
    return False


def recorded(name: str, namespace: str, record: str = "{}") -> Obj:
    return pod(name, namespace, None, {}, annotations={RECORD: record})


def noted_as(name: str, namespace: str, record: str) -> Obj:
    return {"metadata": {"name": name, "namespace": namespace, "annotations": {RECORD: record}}}


def noted(record: str | None) -> Obj:
    return {"metadata": {"annotations": {RECORD: record}}}


async def test_a_tenant_creates_no_pod_with_a_record(people: People, namespace: str):
    for record in ("{}", ""):
        with pytest.raises(Forbidden, match="leave it as it is"):
            await people.tenant.create(PODS, recorded("mine", namespace, record))
    await people.tenant.create(PODS, pod("mine", namespace, None, {}))


@pytest.mark.parametrize("subresource", [None, "status"])
async def test_a_tenant_neither_adds_nor_changes_nor_removes_a_record(
    people: People, namespace: str, subresource: str | None
):
    async def patch(who: Kube, record: str | None) -> Obj:
        return await who.patch(PODS, "mine", noted(record), namespace=namespace, subresource=subresource)

    await people.tenant.create(PODS, pod("mine", namespace, None, {}))
    with pytest.raises(Forbidden, match=NAME):
        await patch(people.tenant, "{}")
    await patch(people.agent, '{"main": {}}')
    for record in ("{}", None):
        with pytest.raises(Forbidden, match=NAME):
            await patch(people.tenant, record)
    stored = await people.tenant.patch(PODS, "mine", {"metadata": {"labels": {"a": "b"}}}, namespace=namespace)
    assert stored["metadata"]["annotations"][RECORD] == '{"main": {}}'
    await patch(people.agent, None)


async def test_a_tenant_neither_replaces_nor_applies_a_record(people: People, namespace: str):
    stored = await people.tenant.create(PODS, pod("mine", namespace, None, {}))
    with pytest.raises(Forbidden, match=NAME):
        await people.tenant.replace(PODS, stored | recorded("mine", namespace) | {"spec": stored["spec"]})
    for name in ("mine", "new"):
        with pytest.raises(Forbidden, match=NAME):
            await people.tenant.apply(PODS, recorded(name, namespace), manager="tenant")
    applied = await people.agent.apply(PODS, noted_as("mine", namespace, "{}"), manager="agent")
    assert applied["metadata"]["annotations"][RECORD] == "{}"


EPHEMERAL: Obj = {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}
RESIZED: Obj = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}]}


@pytest.mark.parametrize(("subresource", "change"), [("ephemeralcontainers", EPHEMERAL), ("resize", RESIZED)])
async def test_what_else_changes_a_pod_leaves_its_record_as_it_was(
    people: People, namespace: str, subresource: str, change: Obj
):
    await people.tenant.create(PODS, pod("mine", namespace, None, {"cpu": "1"}))
    await people.agent.patch(PODS, "mine", noted('{"main": {}}'), namespace=namespace)
    forged = noted("{}") | {"spec": change}
    await people.tenant.patch(PODS, "mine", forged, namespace=namespace, subresource=subresource, kind="strategic")
    stored = await people.tenant.get(PODS, "mine", namespace)
    changed = stored["spec"]["ephemeralContainers" if change is EPHEMERAL else "containers"][0]
    assert change is EPHEMERAL or changed["resources"]["limits"]["cpu"] == "2", "the rest of the change is made"
    assert stored["metadata"]["annotations"][RECORD] == '{"main": {}}'


@pytest.mark.parametrize("controller", ["job-controller", "replicaset-controller", "statefulset-controller"])
async def test_a_controller_makes_no_pod_with_a_record_from_a_tenant_s_template(
    control_plane: LocalCluster, people: People, namespace: str, controller: str
):
    user = f"system:serviceaccount:kube-system:{controller}"
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig_for(user))) as made_by:
        with pytest.raises(Forbidden, match=NAME):
            await made_by.create(PODS, recorded("from-template", namespace))
        await made_by.create(PODS, pod("from-template", namespace, None, {}))


async def test_a_binding_carries_no_record_to_its_pod(people: People, namespace: str):
    await people.tenant.create(PODS, pod("mine", namespace, None, {}))
    bind: Obj = {
        "metadata": {"name": "mine", "namespace": namespace, "annotations": {RECORD: "{}"}},
        "target": {"kind": "Node", "name": "nowhere"},
    }
    for resource in (
        Resource("", "v1", "bindings", "Binding"),
        Resource("", "v1", "pods/mine/binding", "Binding"),
    ):
        with pytest.raises(Forbidden, match=NAME):
            await people.tenant.create(resource, bind)
    bind["metadata"].pop("annotations")
    await people.tenant.create(Resource("", "v1", "pods/mine/binding", "Binding"), bind)


async def test_a_policy_that_is_deleted_comes_back(kube: Kube, people: People, namespace: str):
    await kube.delete(POLICIES, NAME)
    await anyio.sleep(0.5)
    await until("the policy again", lambda: _in_force(kube, people.tenant, namespace))
