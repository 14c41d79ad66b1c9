"""Pin landing: a pin gets into the PodSets in the moment in which Kueue lets them change.

PodSets cannot change while quota is reserved. Between the eviction of a held Workload and its next placement there are
some fifty milliseconds, and in these the Workload is written once more, so that the webhook renders its annotation.
Where that came too late the Workload is made inactive by the admission check instead: it then stays without quota until
it is made active here, in the write that brings the pin, and there is no race.

Owns `spec.active` of a Workload whose annotation says that we have set it to false, and of no other; takes the
annotation away once the Workload is admitted. It asks for nothing but the Workload as it stands, so what a manager has
left half-done is finished by the next.

Woken by Workloads of which something is to be done.
"""

from collections.abc import Iterable
from dataclasses import replace

from gpustack_ctl.controllers.pins import Pins, landed, pin_of
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake
from gpustack_ctl.kube.errors import NotFound
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, deleting, is_true, key_of


class PinLanding(Controller):
    """Keys are `namespace/name` of Workloads."""

    name = "pin-landing"
    workers = 4

    def __init__(self, *, workloads: Informer, pins: Pins) -> None:
        self._workloads = workloads
        self._pins = pins

    def wakes(self) -> Iterable[Wake]:
        yield Wake(self._workloads, lambda _, new: [key_of(new)] if new is not None and _due(new) else ())

    async def reconcile(self, key: str) -> Result:
        workload = self._workloads.get(key)
        if workload is None or not _due(workload):
            return DONE
        pin = pin_of(workload)
        try:
            if is_true(workload, "Admitted"):
                await self._pins.write(workload, None)
            elif pin is not None and pin.toggled:
                await self._pins.annotate(workload, replace(pin, toggled=False), active=True)
            elif self._pins.on and self._pins.pool(workload) is not None:
                await self._pins.touch(workload)
        except NotFound:
            return DONE
        return DONE


def _due(workload: Obj) -> bool:
    """Whether the Workload is to be written, now that it can be."""
    pin = pin_of(workload)
    if deleting(workload) or is_true(workload, "Finished"):
        return False
    if is_true(workload, "QuotaReserved"):
        return pin is not None and is_true(workload, "Admitted")
    return not landed(workload) or (pin is not None and pin.toggled)
