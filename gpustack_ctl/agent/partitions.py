"""Hardware partitions: making an instance on a card, and taking it away.

An instance outlives the process that made it, so who owns it is written to the node's disk before anybody is told of
it. `Partitions` is what the allocator needs of a backend; the simulated one keeps its instances in those same markers.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import orjson

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.accel.records import Entry
from gpustack_ctl.agent.detectors.inventory_file import CallFailure


class PartitionError(Exception):
    """An instance could not be made or destroyed; the text says what the driver answered."""


class Partitions(Protocol):
    """The instances of this node's partitioned cards."""

    async def create(self, pod: PodKey, container: str, entries: Iterable[Entry]) -> tuple[str, ...]:
        """The ids of the container's instances, one per entry; those it already has are kept. Raises PartitionError."""
        ...

    async def existing(self, uid: str, container: str) -> tuple[str, ...]:
        """The ids of the container's instances, without making any."""
        ...

    async def destroy(self, uid: str) -> None:
        """Take away every instance of a Pod that is gone. Raises PartitionError while one is in use."""
        ...

    async def owners(self) -> set[PodKey]:
        """The Pods that own instances."""
        ...


class SimulatedPartitions:
    """Instances that are nothing but their markers: one file per container, under `directory`."""

    def __init__(self, directory: Path, failures: Iterable[CallFailure] = ()) -> None:
        self._directory = directory
        self._failures = Counter[tuple[str, str]]()
        for failure in failures:
            self._failures[failure.call, failure.error] += failure.times

    async def create(self, pod: PodKey, container: str, entries: Iterable[Entry]) -> tuple[str, ...]:
        wanted = [_place(entry) for entry in entries]
        marker = self._marker(pod.uid, container)
        made = _instances(marker)
        if [instance["place"] for instance in made] == wanted:
            return _ids(made)
        for call in ("create-gpu-instance", "create-compute-instance"):
            self._fail_if_told(call)
        made = [{"id": f"MIG-{uuid.uuid4()}", "place": place} for place in wanted]
        try:
            _write(marker, {"pod": list(pod), "container": container, "instances": made})
        except OSError as error:
            raise PartitionError(f"{marker} cannot be written: {error.strerror}") from error
        return _ids(made)

    async def existing(self, uid: str, container: str) -> tuple[str, ...]:
        return _ids(_instances(self._marker(uid, container)))

    async def destroy(self, uid: str) -> None:
        for marker in self._directory.glob(f"{uid}_*.json"):
            self._fail_if_told("destroy-gpu-instance")
            marker.unlink(missing_ok=True)

    async def owners(self) -> set[PodKey]:
        markers = [_read(marker) for marker in self._directory.glob("*.json")]
        return {PodKey(*marker["pod"]) for marker in markers if marker}

    def _marker(self, uid: str, container: str) -> Path:
        return self._directory / f"{uid}_{container}.json"

    def _fail_if_told(self, call: str) -> None:
        """Fail as the inventory says, as many times as it says."""
        for (failing, error), times in self._failures.items():
            if failing == call and times > 0:
                self._failures[failing, error] -= 1
                raise PartitionError(f"{call}: {error}")


def _place(entry: Entry) -> dict[str, Any]:
    return {
        "card": entry.id,
        "profile": entry.profile,
        "placements": [[place.start, place.length] for place in entry.placements],
    }


def _ids(instances: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(instance["id"] for instance in instances)


def _instances(marker: Path) -> list[dict[str, Any]]:
    return list(_read(marker).get("instances", ()))


def _read(marker: Path) -> dict[str, Any]:
    """A marker's content; nothing when there is none. It is written in one step, so half of one cannot be."""
    try:
        content: dict[str, Any] = orjson.loads(marker.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, orjson.JSONDecodeError) as error:
        raise PartitionError(f"{marker} cannot be read: {error}") from error
    return content


def _write(marker: Path, document: dict[str, Any]) -> None:
    """On the disk before it is spoken of, and never half of it."""
    marker.parent.mkdir(parents=True, exist_ok=True)
    fresh = marker.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(orjson.dumps(document))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(marker)
