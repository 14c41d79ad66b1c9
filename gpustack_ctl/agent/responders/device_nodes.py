"""Whole cards and shares by device nodes, for manufacturers whose containers need no runtime of the vendor's.

Which nodes a vendor's driver makes is a row of data. A card's own nodes are required: without them its container would
start, find nothing, and fail in a way that nobody traces back to here. Node-level control nodes are required or taken
as they come, as the vendor's own device plugin does. T-Head is here because nothing that it ships reads a variable
before the container starts.

Unverified on hardware. What was looked up, and where: the AMD and Hygon nodes in ROCm's and HAMi's device plugins, the
Cambricon nodes in Cambricon's own device plugin, the MetaX nodes in vLLM-MetaX's instructions, the T-Head nodes in its
users' `docker run` lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpustack_ctl.accel.families import Manufacturer
from gpustack_ctl.agent.inventory import DetectedCard
from gpustack_ctl.agent.responders.cdi import CdiDevice, CdiSpecification, annotation
from gpustack_ctl.agent.responders.host import Host
from gpustack_ctl.agent.responders.responder import DeviceNode, Grant, HostMount, Response, ResponseRefused, shown_whole
from gpustack_ctl.agent.switches import Switches


@dataclass(frozen=True, slots=True)
class NodesRow:
    """What a container needs of one manufacturer. `{index}` in a path is the card's number at its driver."""

    #: Once per container, and the container is refused without them.
    control: tuple[str, ...] = ()
    #: Once per container, where the host has them.
    control_if_there: tuple[str, ...] = ()
    #: Per card, and the container is refused without them.
    card: tuple[str, ...] = ()
    #: Per card, where the host has them.
    card_if_there: tuple[str, ...] = ()
    #: Whether the card's nodes under /dev/dri are needed too; the kernel says which they are.
    drm: bool = False
    #: Directories of the driver that are mounted read-only where the host has them.
    mounts: tuple[str, ...] = ()
    envs: dict[str, str] = field(default_factory=dict)


ROWS = {
    # Left alone, AMD's own container runtime would add the cards that its variable names to those that we give.
    "amd": NodesRow(control=("/dev/kfd",), drm=True, envs={"AMD_VISIBLE_DEVICES": "none"}),
    "cambricon": NodesRow(
        control_if_there=("/dev/cambricon_ctl", "/dev/cmsg_ctrl", "/dev/commu"),
        card=("/dev/cambricon_dev{index}",),
        card_if_there=("/dev/cambricon_ipcm{index}", "/dev/cambr-msgq:{index}", "/dev/cambr-rpc:{index}"),
    ),
    "hygon": NodesRow(control=("/dev/kfd", "/dev/mkfd"), drm=True, mounts=("/opt/hyhal",)),
    "metax": NodesRow(control=("/dev/mxcd",), drm=True),
    "thead": NodesRow(control=("/dev/alixpu", "/dev/alixpu_ctl"), card=("/dev/alixpu_ppu{index}",)),
}


class DeviceNodesResponder:
    """Hands the nodes over, or has the container runtime do it by CDI."""

    def __init__(self, manufacturer: Manufacturer, *, switches: Switches, host: Host) -> None:
        self._manufacturer = manufacturer
        self._row = ROWS[manufacturer.key]
        self._host = host
        self._cdi = manufacturer.key in switches.cdi_annotations
        self._specification = CdiSpecification(manufacturer, host)

    async def respond(self, grant: Grant) -> Response:
        cards = shown_whole(grant, self._manufacturer)
        control, mounts = self._control(), self._mounts()
        nodes = {card.id: self._nodes(card) for card in cards}
        if not self._cdi:
            return Response(envs=dict(self._row.envs), mounts=mounts, devices=(*control, *_distinct(nodes.values())))
        self._specify(grant, nodes, control)
        names = [card.id for card in cards]
        return Response(envs=dict(self._row.envs), mounts=mounts, annotations=annotation(self._manufacturer, names))

    def _specify(
        self, grant: Grant, granted: Mapping[str, tuple[DeviceNode, ...]], control: tuple[DeviceNode, ...]
    ) -> None:
        """Say what every card of the model is; the runtime reads it when the container starts."""
        devices = [
            CdiDevice(card.id, nodes)
            for card in grant.model.cards
            if (nodes := granted.get(card.id) or self._nodes_if_there(card))
        ]
        try:
            self._specification.write(grant.model.group, devices, control)
        except OSError as error:
            raise ResponseRefused(f"the CDI specification cannot be written: {error}") from error

    def _control(self) -> tuple[DeviceNode, ...]:
        missing = [path for path in self._row.control if not self._host.exists(path)]
        if missing:
            raise ResponseRefused(
                f"{', '.join(missing)} is not on this host; load the kernel driver of {self._manufacturer.key}"
            )
        there = (path for path in self._row.control_if_there if self._host.exists(path))
        return tuple(DeviceNode(path) for path in (*self._row.control, *there))

    def _nodes(self, card: DetectedCard) -> tuple[DeviceNode, ...]:
        own = [path.format(index=card.driver_index) for path in self._row.card]
        if self._row.drm:
            drm = self._host.drm_nodes(card.location.pci_bus_id) if card.location.pci_bus_id else ()
            own += drm or [f"/dev/dri/card* of {card.location.pci_bus_id or 'an unknown PCI address'}"]
        missing = [path for path in own if not self._host.exists(path)]
        if missing:
            raise ResponseRefused(
                f"{', '.join(missing)} of {card.id} is not on this host; "
                f"load the kernel driver of {self._manufacturer.key} and look for the card in its log (dmesg)"
            )
        more = (path.format(index=card.driver_index) for path in self._row.card_if_there)
        return tuple(DeviceNode(path) for path in (*own, *(path for path in more if self._host.exists(path))))

    def _nodes_if_there(self, card: DetectedCard) -> tuple[DeviceNode, ...]:
        try:
            return self._nodes(card)
        except ResponseRefused:
            return ()

    def _mounts(self) -> tuple[HostMount, ...]:
        return tuple(HostMount(path, path) for path in self._row.mounts if self._host.exists(path))


def _distinct(nodes: Iterable[tuple[DeviceNode, ...]]) -> tuple[DeviceNode, ...]:
    return tuple(dict.fromkeys(node for of_card in nodes for node in of_card))
