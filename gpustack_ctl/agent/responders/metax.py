"""MetaX: a subdevice of the card, made and destroyed through the driver's files in /sys, and named in METAX_SGPUS.

A card is put into sgpu mode, its scheduling set to fixed share so that the compute quota is a cap, and a subdevice is
made by writing its memory. The driver chooses the subdevice's number, so it is read back. A marker in the Pod's work
directory is written before the subdevice is made and again with its number: whatever appeared on the card in between
and is in nobody's marker was made for this Pod, and goes with it. A card in use keeps its mode and its scheduling; the
driver refuses to change either under a running subdevice.

Unverified on hardware: the files' names and what they take are as MetaX documents them, and as gpustack-operator
writes them; nobody here has seen the driver answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import anyio
import orjson

from gpustack_ctl.agent.files import write_whole
from gpustack_ctl.agent.inventory import DetectedCard, DetectedModel
from gpustack_ctl.agent.responders.enforcer import Budget, Lack, ReleaseError
from gpustack_ctl.agent.responders.host import Host, each
from gpustack_ctl.agent.responders.responder import Grant, Response, ResponseRefused

_MARKER = "metax-sgpu.json"

#: MetaX's scheduling classes: best effort 0, fixed share 1, burst share 2.
_FIXED_SHARE = 1


class Subdevices(Protocol):
    """The driver's subdevices of a card, by the card's PCI address. Every call may raise OSError."""

    def there(self, bus_id: str) -> bool:
        """Whether the driver offers subdevices on the card at all."""
        ...

    def numbers(self, bus_id: str) -> set[int]: ...

    def prepare(self, bus_id: str) -> None:
        """Mode and scheduling of a card without subdevices."""
        ...

    def create(self, bus_id: str, memory_mib: int) -> None: ...

    def destroy(self, bus_id: str, number: int) -> None: ...


class SysfsSubdevices:
    """The driver behind its files."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def there(self, bus_id: str) -> bool:
        return (self._files(bus_id) / "create").exists()

    def numbers(self, bus_id: str) -> set[int]:
        names = (entry.name.removeprefix("sgpu") for entry in self._files(bus_id).iterdir())
        return {int(name) for name in names if name.isdecimal()}

    def prepare(self, bus_id: str) -> None:
        (self._host.pci(bus_id) / "model").write_text("sgpu")
        (self._files(bus_id) / "sched_class").write_text(str(_FIXED_SHARE))

    def create(self, bus_id: str, memory_mib: int) -> None:
        (self._files(bus_id) / "create").write_text(str(memory_mib))

    def destroy(self, bus_id: str, number: int) -> None:
        (self._files(bus_id) / "destroy").write_text(str(number))

    def _files(self, bus_id: str) -> Path:
        return self._host.pci(bus_id) / "sgpu"


@dataclass(frozen=True, slots=True)
class Marker:
    """One container's subdevice; no number yet while it is being made. `before` was on the card when that began."""

    uid: str
    bus_id: str
    budget: Budget
    before: frozenset[int]
    number: int | None = None

    def owns(self, number: int, *, others: Collection[int]) -> bool:
        """Whether a subdevice on the card was made for this container."""
        if self.number is not None:
            return number == self.number
        return number not in self.before and number not in others

    def render(self) -> str:
        return orjson.dumps(
            {
                "uid": self.uid,
                "card": self.bus_id,
                "cores": self.budget.cores,
                "memoryMib": self.budget.memory_mib,
                "before": sorted(self.before),
                "number": self.number,
            }
        ).decode()


def read(content: str) -> Marker:
    """The inverse of `render`. Raises ValueError."""
    try:
        found = orjson.loads(content)
        budget = Budget(found["cores"], found["memoryMib"])
        return Marker(found["uid"], found["card"], budget, frozenset(found["before"]), found["number"])
    except (KeyError, TypeError) as error:
        raise ValueError(str(error)) from error


def variable(marker: Marker) -> str:
    """The slice as MetaX's runtime reads it."""
    budget = marker.budget
    return (
        f"sgpu={marker.bus_id}#{marker.number};compute={budget.cores};vram={budget.memory_mib};"
        f"alias=gpustack-{marker.uid}"
    )


class MetaxEnforcer:
    """`pods_dir` holds the Pods' work directories."""

    def __init__(self, subdevices: Subdevices, *, pods_dir: Path) -> None:
        self._subdevices = subdevices
        self._pods_dir = pods_dir
        self._changing = anyio.Lock()

    async def lacks(self, _model: DetectedModel, card: DetectedCard) -> Lack | None:
        bus_id = card.location.pci_bus_id
        if bus_id and self._subdevices.there(bus_id):
            return None
        return Lack(
            f"the driver offers no sgpu/create for PCI device {bus_id or 'of unknown address'}",
            "install MetaX's driver 2.32 or later with sGPU",
        )

    async def enforce(self, grant: Grant, card: DetectedCard, budget: Budget) -> Response:
        path = self._pods_dir / grant.pod.uid / grant.container["name"] / _MARKER
        bus_id = card.location.pci_bus_id
        async with self._changing:
            marker = self._known(path)
            if marker is None or marker.bus_id != bus_id or marker.number not in self._subdevices.numbers(bus_id):
                self._take_away(path)
                before = frozenset(self._subdevices.numbers(bus_id))
                marker = self._make(path, Marker(grant.pod.uid, bus_id, budget, before))
        return Response(envs={"METAX_SGPUS": variable(marker)})

    async def release(self, uid: str) -> None:
        async with self._changing:
            for path in sorted((self._pods_dir / uid).glob(f"*/{_MARKER}")):
                try:
                    self._take_away(path)
                except (OSError, ValueError) as error:
                    raise ReleaseError(f"the subdevice of {path} cannot be destroyed: {error}") from error

    def _make(self, path: Path, marker: Marker) -> Marker:
        write_whole(path, marker.render())
        try:
            if not marker.before:
                self._subdevices.prepare(marker.bus_id)
            self._subdevices.create(marker.bus_id, marker.budget.memory_mib)
            made = replace(marker, number=self._appeared(marker))
            write_whole(path, made.render())
        except (OSError, ResponseRefused):
            self._take_away(path)
            raise
        return made

    def _appeared(self, marker: Marker) -> int:
        new = self._subdevices.numbers(marker.bus_id) - marker.before
        if len(new) != 1:
            raise ResponseRefused(f"the driver made {len(new)} subdevices on {marker.bus_id} where one was asked for")
        return new.pop()

    def _take_away(self, path: Path) -> None:
        """Destroy what a marker stands for, then the marker. Raises OSError and ValueError, and the marker stays."""
        marker = self._known(path)
        if marker is None:
            return
        others = {other.number for at, other in self._markers() if at != path and other.bus_id == marker.bus_id}
        for number in self._subdevices.numbers(marker.bus_id):
            if marker.owns(number, others={other for other in others if other is not None}):
                self._subdevices.destroy(marker.bus_id, number)
        path.unlink(missing_ok=True)

    def _known(self, path: Path) -> Marker | None:
        try:
            return read(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise OSError(f"{path} is not readable: {error}") from error

    def _markers(self) -> Iterator[tuple[Path, Marker]]:
        for path, content in each(self._pods_dir, f"*/*/{_MARKER}"):
            yield path, read(content)
