"""Who owns which hardware partition, on the node's disk: an instance outlives the process that made it.

One file per container. It is written before an instance is made, naming the place only, and again once the instance has
an id: whatever is found later at a place that a marker names was made for that marker's Pod, and nothing else was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import structlog

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.accel.records import Entry
from gpustack_ctl.agent.fault_points import reach
from gpustack_ctl.agent.files import write_whole
from gpustack_ctl.agent.partitions import PartitionError

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Place:
    """Where an instance lies: a card's id, the profile, the interval of memory slices."""

    card: str
    profile: str
    placement: Placement

    def __str__(self) -> str:
        return f"{self.profile} at slice {self.placement.start} of {self.card}"


@dataclass(frozen=True, slots=True)
class Instance:
    """A place and the id of what lies there; no id yet while it is being made."""

    place: Place
    id: str = ""


@dataclass(frozen=True, slots=True)
class Marker:
    """The instances of one container."""

    pod: PodKey
    container: str
    instances: tuple[Instance, ...] = ()

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple(instance.place for instance in self.instances)

    @property
    def ids(self) -> tuple[str, ...]:
        """The instances' ids; none at all unless every one has been made."""
        ids = tuple(instance.id for instance in self.instances)
        return ids if all(ids) else ()


class Markers:
    """The markers of one node, under `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def of_container(self, uid: str, container: str) -> Marker | None:
        """Raises PartitionError."""
        return _read(self._path(uid, container))

    def of_pod(self, uid: str) -> list[Marker]:
        """Raises PartitionError."""
        read = map(_read, sorted(self._directory.glob(f"{uid}_*.json")))
        return [marker for marker in read if marker is not None]

    def all(self) -> list[Marker]:
        """Every marker that can be read. What a damaged one names stays as it is until a person looks at it."""
        markers = []
        for path in sorted(self._directory.glob("*.json")):
            try:
                marker = _read(path)
            except PartitionError as error:
                log.warning("marker of a partition ignored", error=str(error))
                continue
            if marker is not None:
                markers.append(marker)
        return markers

    def occupied(self) -> set[tuple[str, Placement]]:
        """Cards and intervals where an instance of ours lies, or is about to."""
        return {(place.card, place.placement) for marker in self.all() for place in marker.places}

    def write(self, marker: Marker) -> None:
        """On the disk before it is spoken of, and never half of it. Raises PartitionError."""
        path = self._path(marker.pod.uid, marker.container)
        try:
            write_whole(path, orjson.dumps(_document(marker)).decode())
        except OSError as error:
            raise PartitionError(f"{path} cannot be written: {error.strerror}") from error
        reach("after-marker")

    def remove(self, marker: Marker) -> None:
        """Raises PartitionError."""
        path = self._path(marker.pod.uid, marker.container)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise PartitionError(f"{path} cannot be removed: {error.strerror}") from error

    def _path(self, uid: str, container: str) -> Path:
        return self._directory / f"{uid}_{container}.json"


def places_of(entries: Iterable[Entry]) -> tuple[Place, ...]:
    """Where the partitions of a promise are to lie."""
    return tuple(Place(entry.id, entry.profile, place) for entry in entries for place in entry.placements)


def _document(marker: Marker) -> dict[str, Any]:
    return {
        "pod": list(marker.pod),
        "container": marker.container,
        "instances": [
            {
                "id": instance.id,
                "card": instance.place.card,
                "profile": instance.place.profile,
                "start": instance.place.placement.start,
                "length": instance.place.placement.length,
            }
            for instance in marker.instances
        ],
    }


def _read(path: Path) -> Marker | None:
    """A marker's content; None when there is none. It is written in one step, so half of one is damage."""
    try:
        content = orjson.loads(path.read_bytes())
        return Marker(PodKey(*content["pod"]), content["container"], tuple(map(_instance, content["instances"])))
    except FileNotFoundError:
        return None
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise PartitionError(f"{path} cannot be read: {error}") from error


def _instance(document: dict[str, Any]) -> Instance:
    placement = Placement(document["start"], document["length"])
    return Instance(Place(document["card"], document["profile"], placement), document["id"])
