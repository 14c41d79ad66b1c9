"""The cards of this node as NVIDIA's driver tells of them.

Every pass asks for everything anew, so a card that appears, leaves, turns ill or changes its MIG mode is seen without a
restart: at once where the driver sends an event, within seconds where it does not. "No accelerators" is believed only
when the PCI bus says so too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import anyio
import pynvml
import structlog

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.agent.detectors.detector import DetectionError
from gpustack_ctl.agent.inventory import Inventory
from gpustack_ctl.agent.nvml.health import Health
from gpustack_ctl.agent.nvml.host import SYSFS, cards_on_the_bus
from gpustack_ctl.agent.nvml.inventory import inventory_of
from gpustack_ctl.agent.nvml.reading import read_cards
from gpustack_ctl.agent.nvml.session import Nvml, NvmlError
from gpustack_ctl.agent.nvml.snapshot import CardReading, Snapshot
from gpustack_ctl.agent.partition_markers import Markers

log = structlog.get_logger()

#: How long a change that no event tells of may go unseen.
_PERIOD_SECONDS = 15.0
#: How long one wait sleeps inside the library, where it cannot be cancelled.
_WAIT_MILLISECONDS = 1000


_NO_DRIVER = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)

_REMEDIES = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "install NVIDIA's driver; in a Pod, have the NVIDIA runtime mount it: "
    "runtimeClassName nvidia and NVIDIA_VISIBLE_DEVICES=all",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "load the kernel's part of the driver: modprobe nvidia",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the driver was changed under a running kernel module: reboot the node",
    pynvml.NVML_ERROR_NO_PERMISSION: "run as root, with /dev/nvidiactl and the cards' device nodes",
}


class NvmlDetector:
    """A detector whose hardware is real. `markers` say which partitions on it are ours."""

    def __init__(
        self,
        nvml: Nvml,
        markers: Markers,
        *,
        table: Manufacturers,
        group_id_with_memory: bool = False,
        sysfs: Path = SYSFS,
        period_seconds: float = _PERIOD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nvml = nvml
        self._markers = markers
        self._table = table
        self._with_memory = group_id_with_memory
        self._sysfs = sysfs
        self._period = period_seconds
        self._health = Health(clock=clock)
        self._last: Snapshot | None = None

    async def detect(self) -> Inventory:
        """What the driver says now. Raises DetectionError; the next pass then opens the library anew."""
        return self.derived(await self.snapshot())

    def derived(self, snapshot: Snapshot) -> Inventory:
        """What a snapshot of this machine comes to."""
        return inventory_of(snapshot, table=self._table, group_id_with_memory=self._with_memory)

    async def snapshot(self) -> Snapshot:
        """What the driver says, before anything is derived from it: a recording keeps it. Raises DetectionError."""
        try:
            found = await self._nvml.run(self._read)
        except NvmlError as error:
            await self._start_anew()
            if self._last is None and error.code in _NO_DRIVER and self._no_cards_here():
                log.info("no card of this manufacturer on the PCI bus, and no driver", error=str(error))
                return Snapshot()
            raise DetectionError(f"NVML: {error}", remedy=_REMEDIES.get(error.code, "")) from error
        _refuse_twins(found)
        self._tell_of_changes(found)
        self._last = found
        return found

    async def changed(self) -> None:
        """Return when the driver told of something, and at the latest after the period."""
        until = anyio.current_time() + self._period
        milliseconds = min(_WAIT_MILLISECONDS, int(self._period * 1000))
        try:
            while anyio.current_time() < until:
                if await self._nvml.wait(lambda: self._health.wait(milliseconds)):
                    return
        except NvmlError as error:
            log.warning("the driver's events cannot be waited for, looking again", error=str(error))
            await self._start_anew()

    def _read(self) -> Snapshot:
        return read_cards(self._health, occupied=self._markers.occupied, before=self._last, sysfs=self._sysfs)

    async def _start_anew(self) -> None:
        """Whatever broke, the library may have lost its driver: it is opened again for the next pass."""
        await self._nvml.wait(self._health.forget_events)
        await self._nvml.close()

    def _no_cards_here(self) -> bool:
        return cards_on_the_bus(self._table.by_key["nvidia"].pci_vendor, sysfs=self._sysfs) == 0

    def _tell_of_changes(self, found: Snapshot) -> None:
        before = {card.uuid: card for card in self._last.cards} if self._last else {}
        for uuid in before.keys() - {card.uuid for card in found.cards}:
            self._health.card_was_away(uuid)
            log.warning("a card is gone", card=uuid, index=before[uuid].index)
        for card in found.cards:
            _tell(card, before.get(card.uuid))


def _tell(card: CardReading, before: CardReading | None) -> None:
    trouble_before = before.trouble if before else ""
    if card.trouble != trouble_before:
        if card.trouble:
            log.warning("card unhealthy", card=card.uuid, index=card.index, reason=card.trouble)
        else:
            log.info("card healthy again", card=card.uuid, index=card.index)
    if card.foreign and (before is None or card.foreign != before.foreign):
        starts = [place.start for place in card.foreign]
        log.warning("instances that were not made for Pods take room", card=card.uuid, slices=starts)
    if before is not None and card.mig != before.mig:
        log.info("MIG mode changed", card=card.uuid, index=card.index, mig=card.mig)


def _refuse_twins(found: Snapshot) -> None:
    """Cards are accounted for by UUID: two of one name would be promised as one."""
    for uuid, times in Counter(card.uuid for card in found.cards).items():
        if times > 1:
            raise DetectionError(f"NVML names {times} cards {uuid}")
