"""A node agent writes to its own node only: its Pods, its ledger, itself.

RBAC cannot say "of your node", since all agents are one service account. The API server knows better: a token that was
issued to a Pod names the Pod's node. So an agent that is taken over on one node forges nothing on another, and one
whose token names no node writes nothing at all.
"""

from __future__ import annotations

from gpustack_ctl.deployment.rbac import AGENT
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import DEVICES, NODES, PODS

NAME = "gpustack-agent-own-node"

_CLAIM = "authentication.kubernetes.io/node-name"


def policy(namespace: str) -> Obj:
    """For the agents' service account in `namespace`; nobody else is asked."""
    return {
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    _rule(PODS.group, PODS.version, [PODS.plural]),
                    _rule(NODES.group, NODES.version, [NODES.plural]),
                    _rule(DEVICES.group, "*", [DEVICES.plural, f"{DEVICES.plural}/status"]),
                ]
            },
            "matchConditions": [
                {
                    "name": "a-node-agent-writes",
                    "expression": f"request.userInfo.username == 'system:serviceaccount:{namespace}:{AGENT}'",
                }
            ],
            "variables": [
                {"name": "own", "expression": f"request.userInfo.?extra[?'{_CLAIM}'][?0].orValue('')"},
                {
                    "name": "written",
                    "expression": f"request.resource.resource == '{PODS.plural}'"
                    " ? object.spec.?nodeName.orValue('') : object.metadata.name",
                },
            ],
            "validations": [
                {
                    "expression": "variables.own != '' && variables.own == variables.written",
                    "messageExpression": "'an agent of node \"' + variables.own + '\" writes nothing of node \"'"
                    " + variables.written + '\"; run it in a Pod of its node, with the token mounted there'",
                    "reason": "Forbidden",
                }
            ],
        },
    }


def binding() -> Obj:
    return {"metadata": {"name": NAME}, "spec": {"policyName": NAME, "validationActions": ["Deny"]}}


def _rule(group: str, version: str, resources: list[str]) -> Obj:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": ["CREATE", "UPDATE"],
        "resources": resources,
    }
