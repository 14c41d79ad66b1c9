"""Whole cards and shares by one variable: the vendor's container runtime reads it and injects the cards it names."""

from __future__ import annotations

from gpustack_ctl.accel.families import Family, Manufacturer
from gpustack_ctl.agent.responders.responder import Grant, Response, ResponseRefused
from gpustack_ctl.agent.switches import Switches


class VisibleDevicesResponder:
    """For a manufacturer whose runtime needs nothing but the variable. Unverified on hardware."""

    def __init__(self, manufacturer: Manufacturer, *, switches: Switches) -> None:
        self._manufacturer = manufacturer
        self._cdi = manufacturer.key in switches.cdi_annotations

    async def respond(self, grant: Grant) -> Response:
        if grant.family in (Family.SLICED, Family.PARTITIONED):
            raise ResponseRefused(
                f"{grant.family.value} accelerators of {self._manufacturer.key} are not enforced by this version; "
                "ask for whole accelerators or shares"
            )
        return show(grant, self._manufacturer, cdi=self._cdi)


class NotYetResponder:
    """For a manufacturer whose containers need more than a variable: refused plainly rather than started blind."""

    def __init__(self, manufacturer: Manufacturer) -> None:
        self._manufacturer = manufacturer

    async def respond(self, grant: Grant) -> Response:
        raise ResponseRefused(
            f"accelerators of {self._manufacturer.key} cannot be given to containers by this version: "
            f"{grant.cards[0].id} needs device nodes of its own"
        )


def show(grant: Grant, manufacturer: Manufacturer, *, cdi: bool) -> Response:
    """Make the container see what it was granted, by the variable or by a CDI annotation."""
    if cdi:
        names = ",".join(f"{manufacturer.base}={name}" for name in grant.visible)
        return Response(annotations={f"{_CDI_PREFIX}{manufacturer.key}": names})
    return Response(envs={manufacturer.visible_devices: ",".join(grant.visible)})


_CDI_PREFIX = "cdi.k8s.io/gpustack_"
