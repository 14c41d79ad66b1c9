"""The AdmissionCheck object `gpustack-node-devices`: there, and Active, for as long as a manager leads.

Kueue brings its own CRDs and nothing orders them before an object of ours in one install, so the manager makes the
check itself. A queue may refer to it only once it is Active; the verdicts are the admission check controller's.

Woken by the check's own changes, and once at start to make it.
"""

from collections.abc import Iterable

from gpustack_ctl.accel.labels import ADMISSION_CHECK, ADMISSION_CHECK_CONTROLLER
from gpustack_ctl.controllers.writes import settle
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, changes
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, condition, deleting
from gpustack_ctl.kube.times import now

MANAGER = "gpustack-device-check"


class DeviceCheck(Controller):
    """The only key is the check's name."""

    name = "device-check"

    def __init__(self, *, kube: Kube, checks: Informer) -> None:
        self._kube = kube
        self._checks = checks

    def wakes(self) -> Iterable[Wake]:
        self.queue.add(ADMISSION_CHECK)  # nothing else would wake us while there is no check
        yield changes(self._checks)

    async def reconcile(self, key: str) -> Result:
        check = self._checks.get(key)
        if key != ADMISSION_CHECK or (check is not None and deleting(check)):
            return DONE
        await settle(self._kube, self._checks, _check(), manager=MANAGER)
        await settle(self._kube, self._checks, _active(self._checks.get(key)), manager=MANAGER, subresource="status")
        return DONE


def _check() -> Obj:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": ADMISSION_CHECK},
        "spec": {"controllerName": ADMISSION_CHECK_CONTROLLER},
    }


def _active(check: Obj | None) -> Obj:
    before = condition(check or {}, "Active") or {}
    since = before.get("lastTransitionTime") if before.get("status") == "True" else None
    active = {
        "type": "Active",
        "status": "True",
        "reason": "Serving",
        "message": "every accelerator of the assigned nodes is looked at before a Workload is admitted",
        "lastTransitionTime": since or now(),
    }
    identity = {key: value for key, value in _check().items() if key != "spec"}
    return {**identity, "status": {"conditions": [active]}}
