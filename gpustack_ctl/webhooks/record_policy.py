"""Nobody but a node agent writes an allocation record.

The annotation is what the whole ledger believes, so a tenant who could write it could claim cards that he does
not hold, or free ones that he does. The API server itself decides, by CEL and without a call to us, for every
Pod of every namespace, whether it names a queue or not. Who may write is said by RBAC, once: whoever may update
the ledgers.
"""

from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import DEVICES, Resource
from gpustack_ctl.webhooks.upkeep import Upkeep

_GROUP = "admissionregistration.k8s.io"
POLICIES = Resource(_GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
BINDINGS = Resource(
    _GROUP, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
)

NAME = "gpustack-allocation-record"

# Absent and empty differ: an empty record is one that nobody can read, and holds every card until it is rewritten.
_RECORD = f"metadata.?annotations[?'{ALLOCATED}']"
_UNCHANGED = f"object.{_RECORD} == (oldObject == null ? optional.none() : oldObject.{_RECORD})"
_LEDGERS = f"authorizer.group('{DEVICES.group}').resource('{DEVICES.plural}').subresource('status')"


def policy() -> Obj:
    """What is refused. A binding puts annotations on its Pod, too; ephemeral containers and resizes do not."""
    return {
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["pods", "pods/status", "pods/binding", "bindings"],
                        "scope": "Namespaced",
                    }
                ],
            },
            "validations": [
                {
                    "expression": f"{_UNCHANGED} || {_LEDGERS}.check('update').allowed()",
                    "message": f"{ALLOCATED} is the node agent's record of what a Pod holds; leave it as it is",
                    "reason": "Forbidden",
                }
            ],
        },
    }


def binding() -> Obj:
    return {"metadata": {"name": NAME}, "spec": {"policyName": NAME, "validationActions": ["Deny"]}}


class RecordPolicy:
    """Keeps the policy in force, until cancelled."""

    def __init__(self, *, kube: Kube, informers: Informers) -> None:
        wanted = {POLICIES: policy(), BINDINGS: binding()}
        self._upkeep = Upkeep(
            kube=kube,
            informers=informers,
            manager="gpustack-ctl-record-policy",
            names=dict.fromkeys(wanted, NAME),
            wanted=wanted.get,
        )

    async def run(self) -> None:
        await self._upkeep.run()
