"""The files under deploy/ by their names there: one function makes what is written and what is compared."""

from __future__ import annotations

from collections.abc import Iterable

from gpustack_ctl.crds import as_yaml
from gpustack_ctl.deployment import own_node, rbac
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import Resource
from gpustack_ctl.webhooks import record_policy

NAMESPACE = "gpustack-system"

_HEADER = "# Made by `just generate` from {source}; change it there.\n"


def files() -> dict[str, str]:
    """Path below deploy/ to content."""
    record = _policy(record_policy.policy(), record_policy.binding())
    own_nodes = _policy(own_node.policy(NAMESPACE), own_node.binding())
    return {
        "policies/allocation-record.yaml": _file("gpustack_ctl/webhooks/record_policy.py", record),
        "policies/agent-own-node.yaml": _file("gpustack_ctl/deployment/own_node.py", own_nodes),
        "rbac/manager.yaml": _file("gpustack_ctl/deployment/rbac.py", rbac.manager_manifests(NAMESPACE)),
        "rbac/node-agent.yaml": _file("gpustack_ctl/deployment/rbac.py", rbac.agent_manifests(NAMESPACE)),
    }


def _policy(policy: Obj, binding: Obj) -> list[Obj]:
    return [_typed(record_policy.POLICIES, policy), _typed(record_policy.BINDINGS, binding)]


def _typed(resource: Resource, obj: Obj) -> Obj:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _file(source: str, manifests: Iterable[Obj]) -> str:
    return _HEADER.format(source=source) + "---\n".join(map(as_yaml, manifests))
