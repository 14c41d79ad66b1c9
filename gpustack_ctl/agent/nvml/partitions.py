"""Hardware partitions through NVML, with their owners on the node's disk.

The marker comes first, then the instance, then its id into the marker. A process killed anywhere between leaves a place
that a marker names, and the next one completes or removes what lies there. An instance at a place that no marker names
was made by somebody else, and is neither used nor touched.

The driver refuses to destroy what a program still runs on, and refuses a place for a moment after it was freed; both
are tried again a few times, and are errors after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import anyio
import pynvml
import structlog
from anyio import to_thread

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.accel.families import Manufacturer
from gpustack_ctl.accel.records import Entry
from gpustack_ctl.agent.nvml.instances import Lying, lying_on, make, take_away
from gpustack_ctl.agent.nvml.session import Nvml, NvmlError
from gpustack_ctl.agent.partition_markers import Instance, Marker, Markers, Place, places_of
from gpustack_ctl.agent.partitions import InstanceInUseError, NoRoomError, PartitionError

log = structlog.get_logger()

T = TypeVar("T")

#: Seconds between tries. The kubelet waits for the first; nobody waits for the second.
_UNTIL_ROOM = (0.05, 0.2)
_UNTIL_UNUSED = (0.1, 0.3, 0.9)


class NvmlPartitions:
    """The MIG instances of this node's cards."""

    def __init__(
        self,
        nvml: Nvml,
        markers: Markers,
        *,
        manufacturer: Manufacturer,
        until_room: Sequence[float] = _UNTIL_ROOM,
        until_unused: Sequence[float] = _UNTIL_UNUSED,
    ) -> None:
        self._nvml = nvml
        self._markers = markers
        self._manufacturer = manufacturer
        self._until_room = until_room
        self._until_unused = until_unused

    async def create(self, pod: PodKey, container: str, entries: Iterable[Entry]) -> tuple[str, ...]:
        """Raises PartitionError, and nothing was then made that was not there before."""
        wanted = places_of(entries)
        marker = await to_thread.run_sync(lambda: self._markers.of_container(pod.uid, container))
        if marker is not None and marker.places != wanted:
            await self._remove(marker)
            marker = None
        known = marker or Marker(pod, container, tuple(Instance(place) for place in wanted))
        intended = await self._as_lying(known, ours=marker is not None)
        if intended.ids:
            return intended.ids  # all there already, and perhaps at work: nothing is to be made or undone
        if intended != marker:
            await self._write(intended)
        return (await self._make(intended)).ids

    async def existing(self, uid: str, container: str) -> tuple[str, ...]:
        marker = await to_thread.run_sync(lambda: self._markers.of_container(uid, container))
        return marker.ids if marker else ()

    async def destroy(self, uid: str) -> None:
        for marker in await to_thread.run_sync(lambda: self._markers.of_pod(uid)):
            await self._remove(marker)

    async def owners(self) -> set[PodKey]:
        return {marker.pod for marker in await to_thread.run_sync(self._markers.all)}

    async def _as_lying(self, marker: Marker, *, ours: bool) -> Marker:
        """The marker as the hardware bears it out. Raises NoRoomError where something else lies.

        Ids of instances that are not there are dropped: a reboot takes them all. An instance that the marker knows no
        id of is one that a former process was about to note; `ours` says that the marker is on the disk.
        """
        found = []
        for instance in marker.instances:
            lying = await self._lying_on(instance.place)
            for other in lying:
                if not (ours and _may_be(other, instance)):
                    raise NoRoomError(await self._why_not(instance.place, other))
            noted = any(other.id == instance.id for other in lying)
            found.append(instance if noted else replace(instance, id=""))
        return replace(marker, instances=tuple(found))

    async def _lying_on(self, place: Place) -> list[Lying]:
        """The instances that take a slice of the place."""
        lying = await self._ask(lambda: lying_on(place.card), what=f"{place} cannot be made")
        return [other for other in lying if other.placement.mask & place.placement.mask]

    async def _why_not(self, place: Place, other: Lying) -> str:
        owner = next(
            (
                marker.pod
                for marker in await to_thread.run_sync(self._markers.all)
                for known in marker.places
                if (known.card, known.placement) == (place.card, other.placement)
            ),
            None,
        )
        whose = f"Pod {owner} has" if owner else "somebody else made; destroy it with nvidia-smi mig"
        return (
            f"{place} cannot be made: at slice {other.placement.start} lies {other.id or 'an instance'}, which {whose}"
        )

    async def _make(self, marker: Marker) -> Marker:
        """Make what the marker names, and note its ids. What fails half-way is taken away again, marker and all."""
        made: list[Instance] = []
        try:
            for instance in marker.instances:
                uuid = await self._made_at(instance.place)
                made.append(replace(instance, id=uuid))
            complete = replace(marker, instances=tuple(made))
            await self._write(complete)
        except PartitionError:
            with anyio.CancelScope(shield=True):
                await self._undo(replace(marker, instances=(*made, *marker.instances[len(made) :])))
            raise
        return complete

    async def _undo(self, marker: Marker) -> None:
        try:
            await self._remove(marker)
        except PartitionError as error:
            # The marker stays, so the next try, or the end of the Pod, finds what is left.
            log.warning("partition half made stays for now", pod=str(marker.pod), uid=marker.pod.uid, error=str(error))

    async def _made_at(self, place: Place) -> str:
        uuid = await self._ask(
            lambda: make(place, self._manufacturer),
            what=f"{place} cannot be made",
            again=pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES,
            pauses=self._until_room,
        )
        if not uuid:
            raise PartitionError(f"{place} was made, and the driver shows no MIG device for it")
        return uuid

    async def _remove(self, marker: Marker) -> None:
        """Take away what the marker names, then the marker: while something stays, so does the note of whose it is."""
        for instance in marker.instances:
            await self._taken_away(instance)
        await to_thread.run_sync(lambda: self._markers.remove(marker))

    async def _taken_away(self, instance: Instance) -> None:
        was_there = await self._ask(
            lambda: take_away(instance.place, instance.id),
            what=f"{instance.place} cannot be taken away",
            again=pynvml.NVML_ERROR_IN_USE,
            pauses=self._until_unused,
        )
        if not was_there and instance.id:
            log.info("partition was gone already", place=str(instance.place), id=instance.id)

    async def _write(self, marker: Marker) -> None:
        await to_thread.run_sync(lambda: self._markers.write(marker))

    async def _ask(
        self, work: Callable[[], T], *, what: str, again: int | None = None, pauses: Sequence[float] = ()
    ) -> T:
        """Do `work`, and once more after each pause as long as the driver answers `again`."""
        for pause in (*pauses, None):
            try:
                return await self._nvml.run(work)
            except NvmlError as error:
                if error.code != again or pause is None:
                    raise _ERRORS.get(error.code, PartitionError)(f"{what}: {error}") from error
                await anyio.sleep(pause)
        raise AssertionError("the last try returns or raises")


def _may_be(lying: Lying, instance: Instance) -> bool:
    """Whether what lies on the hardware is a marker's instance: at its very place, and under no other id."""
    return lying.placement == instance.place.placement and (not instance.id or lying.id in ("", instance.id))


_ERRORS: dict[int, type[PartitionError]] = {
    pynvml.NVML_ERROR_IN_USE: InstanceInUseError,
    pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES: NoRoomError,
}
