"""What manager and agent may do: each its own service account, and no verb that it does not use.

Reading is granted for whole resources, because a watch cannot be narrowed; of what only one object is ever written or
read (our Secret, our lease, our webhook configurations), the name is given. A server-side apply is a `patch`, and a
`create` as well where the object may not be there yet; RBAC cannot tie a create to a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpustack_ctl.kube.objects import Obj, Objs
from gpustack_ctl.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CRDS,
    DEVICES,
    EVENTS,
    INSTANCE_TYPES,
    LEASES,
    LOCAL_QUEUES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    SECRETS,
    SETTINGS,
    TOPOLOGIES,
    VALIDATING_WEBHOOKS,
    WORKLOADS,
    Resource,
)
from gpustack_ctl.webhooks import record_policy, registration
from gpustack_ctl.webhooks.certificates import SECRET_NAME

MANAGER = "gpustack-manager"
AGENT = "gpustack-node-agent"

_GROUP = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Resource(_GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ROLES = Resource(_GROUP, "v1", "roles", "Role")
ROLE_BINDINGS = Resource(_GROUP, "v1", "rolebindings", "RoleBinding")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")

READ = ("get", "list", "watch")


def manager_rules() -> Objs:
    """Across the cluster: the chain from nodes to queues, the check, the registration of our webhooks."""
    return [
        _rule([NODES, PODS, NAMESPACES], READ),
        _rule([WORKLOADS], [*READ, "patch"]),
        _rule([SETTINGS], [*READ, "create"]),
        _rule([SETTINGS], ["patch"], subresources=["status"]),
        _rule([NODES], ["patch"], subresources=["", "status"]),
        _rule([DEVICES], [*READ, "patch", "delete"]),
        _rule([INSTANCE_TYPES], [*READ, "create", "patch"]),
        _rule([INSTANCE_TYPES], ["patch"], subresources=["status"]),
        _rule([RESOURCE_FLAVORS, CLUSTER_QUEUES, LOCAL_QUEUES], [*READ, "create", "patch", "delete"]),
        _rule([TOPOLOGIES, ADMISSION_CHECKS], [*READ, "create", "patch"]),
        _rule([TOPOLOGIES], ["delete"]),
        _rule([ADMISSION_CHECKS, WORKLOADS], ["patch"], subresources=["status"]),
        _rule([CRDS], ["get", "create", "patch"]),
        _rule([EVENTS], ["create", "patch"]),
        *_kept(MUTATING_WEBHOOKS, registration.MUTATION),
        *_kept(VALIDATING_WEBHOOKS, registration.VALIDATION),
        *_kept(record_policy.POLICIES, record_policy.NAME),
        *_kept(record_policy.BINDINGS, record_policy.NAME),
    ]


def manager_rules_at_home() -> Objs:
    """In its own namespace: the certificates that replicas share, and the lease by which one of them leads."""
    return [
        _rule([SECRETS], ["create"]),
        _rule([SECRETS], [*READ, "update"], names=[SECRET_NAME]),
        _rule([LEASES], ["create"]),
        _rule([LEASES], ["get", "update"], names=[MANAGER]),
    ]


def agent_rules() -> Objs:
    """The ledger of a node and the record on its Pods.

    `update` of a ledger's status is never asked for, since the agent applies; it is what the policy that guards the
    records asks about.
    """
    return [
        _rule([NODES, PODS], [*READ, "patch"]),
        _rule([DEVICES], [*READ, "create", "patch"]),
        _rule([DEVICES], ["patch", "update"], subresources=["status"]),
        _rule([EVENTS], ["create", "patch"]),
    ]


def manager_manifests(namespace: str) -> Objs:
    """The manager's service account and everything bound to it."""
    return [
        _account(MANAGER, namespace),
        _role(CLUSTER_ROLES, {"name": MANAGER}, manager_rules()),
        _binding(CLUSTER_ROLE_BINDINGS, {"name": MANAGER}, CLUSTER_ROLES, namespace),
        _role(ROLES, {"name": MANAGER, "namespace": namespace}, manager_rules_at_home()),
        _binding(ROLE_BINDINGS, {"name": MANAGER, "namespace": namespace}, ROLES, namespace),
    ]


def agent_manifests(namespace: str) -> Objs:
    """The agent's service account and everything bound to it."""
    return [
        _account(AGENT, namespace),
        _role(CLUSTER_ROLES, {"name": AGENT}, agent_rules()),
        _binding(CLUSTER_ROLE_BINDINGS, {"name": AGENT}, CLUSTER_ROLES, namespace),
    ]


def _kept(resource: Resource, name: str) -> Objs:
    """One object that is applied whenever it is not as it should be."""
    return [_rule([resource], ["create"]), _rule([resource], [*READ, "patch"], names=[name])]


def _rule(
    resources: Sequence[Resource],
    verbs: Iterable[str],
    *,
    subresources: Sequence[str] = ("",),
    names: Sequence[str] = (),
) -> Obj:
    """Verbs on resources of one group: a rule over two would name each resource in both."""
    rule: Obj = {
        "apiGroups": [resources[0].group],
        "resources": [f"{resource.plural}/{sub}".rstrip("/") for resource in resources for sub in subresources],
        "verbs": list(verbs),
    }
    return rule | {"resourceNames": list(names)} if names else rule


def _account(name: str, namespace: str) -> Obj:
    return _typed(SERVICE_ACCOUNTS) | {"metadata": {"name": name, "namespace": namespace}}


def _role(resource: Resource, metadata: Obj, rules: Objs) -> Obj:
    return _typed(resource) | {"metadata": metadata, "rules": rules}


def _binding(resource: Resource, metadata: Obj, role: Resource, namespace: str) -> Obj:
    name = metadata["name"]
    return _typed(resource) | {
        "metadata": metadata,
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        "roleRef": {"apiGroup": role.group, "kind": role.kind, "name": name},
    }


def _typed(resource: Resource) -> Obj:
    return {"apiVersion": resource.api_version, "kind": resource.kind}
