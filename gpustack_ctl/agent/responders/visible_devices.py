"""Whole cards and shares by one variable: the vendor's container runtime reads it and injects the cards it names."""

from __future__ import annotations

from collections.abc import Callable

from gpustack_ctl.accel.families import Manufacturer
from gpustack_ctl.agent.inventory import DetectedCard
from gpustack_ctl.agent.responders.cdi import annotation
from gpustack_ctl.agent.responders.responder import Grant, Response, shown_whole
from gpustack_ctl.agent.switches import Switches


def by_id(card: DetectedCard) -> str:
    return card.id


def by_driver_index(card: DetectedCard) -> str:
    return str(card.driver_index)


class VisibleDevicesResponder:
    """For a manufacturer whose runtime needs nothing but the variable. Unverified on hardware.

    `name` is how the runtime calls a card: Ascend's takes the driver's number for it, the others an id.
    """

    def __init__(
        self, manufacturer: Manufacturer, *, switches: Switches, name: Callable[[DetectedCard], str] = by_id
    ) -> None:
        self._manufacturer = manufacturer
        self._cdi = manufacturer.key in switches.cdi_annotations
        self._name = name

    async def respond(self, grant: Grant) -> Response:
        names = [self._name(card) for card in shown_whole(grant, self._manufacturer)]
        if self._cdi:
            return Response(annotations=annotation(self._manufacturer, names))
        return Response(envs={self._manufacturer.visible_devices: ",".join(names)})


def show(grant: Grant, manufacturer: Manufacturer, *, cdi: bool) -> Response:
    """Make the container see the cards or the partitions that it was granted, by the variable or by an annotation."""
    if cdi:
        return Response(annotations=annotation(manufacturer, grant.visible))
    return Response(envs={manufacturer.visible_devices: ",".join(grant.visible)})
