"""Partitions of cards that are not there: instances that are nothing but their markers."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.accel.records import Entry
from gpustack_ctl.agent.detectors.inventory_file import CallFailure
from gpustack_ctl.agent.partition_markers import Instance, Marker, Markers, places_of
from gpustack_ctl.agent.partitions import InstanceInUseError, NoRoomError, PartitionError


class SimulatedPartitions:
    """The instances whose markers are under `directory`; calls fail as an inventory says."""

    def __init__(self, directory: Path, failures: Iterable[CallFailure] = ()) -> None:
        self._markers = Markers(directory)
        self._failures = Counter[tuple[str, str]]()
        for failure in failures:
            self._failures[failure.call, failure.error] += failure.times

    async def create(self, pod: PodKey, container: str, entries: Iterable[Entry]) -> tuple[str, ...]:
        wanted = places_of(entries)
        marker = self._markers.of_container(pod.uid, container)
        if marker is not None and marker.places == wanted:
            return marker.ids
        for call in ("create-gpu-instance", "create-compute-instance"):
            self._fail_if_told(call)
        made = Marker(pod, container, tuple(Instance(place, f"MIG-{uuid.uuid4()}") for place in wanted))
        self._markers.write(made)
        return made.ids

    async def existing(self, uid: str, container: str) -> tuple[str, ...]:
        marker = self._markers.of_container(uid, container)
        return marker.ids if marker else ()

    async def destroy(self, uid: str) -> None:
        for marker in self._markers.of_pod(uid):
            self._fail_if_told("destroy-gpu-instance")
            self._markers.remove(marker)

    async def owners(self) -> set[PodKey]:
        return {marker.pod for marker in self._markers.all()}

    def _fail_if_told(self, call: str) -> None:
        """Fail as the inventory says, as many times as it says."""
        for (failing, error), times in self._failures.items():
            if failing == call and times > 0:
                self._failures[failing, error] -= 1
                raise _ERRORS.get(error, PartitionError)(f"{call}: {error}")


#: The driver's errors that an inventory can name, and what they mean to the allocator.
_ERRORS: dict[str, type[PartitionError]] = {"insufficient-resources": NoRoomError, "in-use": InstanceInUseError}
