"""Hygon: a file per slice that the host's DTK runtime reads in the container, `/etc/vdev/docker/vdev0.conf`.

The file names the card, the compute units that the slice may run on as two masks of 64, and the memory it may take. The
runtime enforces what the file says and compares it with no other, so slices must not overlap in it: a free number on
the node (vdev_id), one on the card (pipe_id) and compute units that no other slice of the card has are read off the
files of all Pods that are still here. The file is in the Pod's work directory and ends with the Pod.

Unverified on hardware. The format is what HAMi's device plugin for DCUs writes; that DTK counts compute units as the
detector does is assumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio

from gpustack_ctl.agent.files import write_whole
from gpustack_ctl.agent.inventory import DetectedCard, DetectedModel
from gpustack_ctl.agent.responders.enforcer import Budget, Lack
from gpustack_ctl.agent.responders.host import Host, each
from gpustack_ctl.agent.responders.responder import Grant, HostMount, Response, ResponseRefused

#: Where DTK is on the host, and where containers look for it.
DRIVER, IN_CONTAINER = "/opt/dtk", "/opt/hygondriver"

_CONFIG_DIRECTORY = "/etc/vdev/docker"
_FILE = "vdev0.conf"
_MASK_BITS = 64


@dataclass(frozen=True, slots=True)
class Vdev:
    """One slice as DTK reads it. `units` is a bit per compute unit."""

    pci_bus_id: str
    units: int
    memory_mib: int
    vdev_id: int
    pipe_id: int

    @property
    def size(self) -> tuple[str, int, int]:
        """The card, how many of its compute units, and MiB."""
        return self.pci_bus_id, self.units.bit_count(), self.memory_mib

    def render(self) -> str:
        low, high = self.units % 2**_MASK_BITS, self.units >> _MASK_BITS
        lines = (
            f"PciBusId: {self.pci_bus_id}",
            f"cu_mask: {low:#018x}",
            f"cu_mask: {high:#018x}",
            f"cu_count: {self.units.bit_count()}",
            f"mem: {self.memory_mib} MiB",
            "device_id: 0",
            f"vdev_id: {self.vdev_id}",
            f"pipe_id: {self.pipe_id}",
            "enable: 1",
        )
        return "".join(f"{line}\n" for line in lines)


def read(content: str) -> Vdev:
    """The inverse of `render`. Raises ValueError: what cannot be read must not be taken for free."""
    pairs = [line.partition(": ")[::2] for line in content.splitlines()]
    low, high = (int(value, 16) for key, value in pairs if key == "cu_mask")
    values = dict(pairs)
    try:
        return Vdev(
            values["PciBusId"],
            high << _MASK_BITS | low,
            int(values["mem"].removesuffix(" MiB")),
            int(values["vdev_id"]),
            int(values["pipe_id"]),
        )
    except KeyError as error:
        raise ValueError(f"it has no {error}") from error


def plan(
    card: DetectedCard, *, compute_units: int, budget: Budget, others: Collection[Vdev], before: Vdev | None = None
) -> Vdev:
    """A slice beside the others of the node. Raises ResponseRefused when its compute units are not free.

    `before` is what a former, unheard answer to the same container chose; it is kept where it is as large.
    """
    bus_id = card.location.pci_bus_id
    wanted = max(compute_units * budget.cores // 100, 1)
    if before and before.size == (bus_id, wanted, budget.memory_mib):
        return before
    beside = [vdev for vdev in others if vdev.pci_bus_id == bus_id]
    taken = 0
    for vdev in beside:
        taken |= vdev.units
    free = [unit for unit in range(compute_units) if not taken >> unit & 1]
    if len(free) < wanted:
        raise ResponseRefused(
            f"the slice on {card.id} takes {wanted} compute units and {len(free)} of {compute_units} are free; "
            "ask for a smaller cores-percentage, or delete Pods of the card that have ended"
        )
    units = sum(1 << unit for unit in free[:wanted])
    return Vdev(
        bus_id,
        units,
        budget.memory_mib,
        vdev_id=_lowest_free(vdev.vdev_id for vdev in others),
        pipe_id=_lowest_free(vdev.pipe_id for vdev in beside),
    )


class HygonEnforcer:
    """`pods_dir` holds the Pods' work directories, and in them the files of all slices of this node."""

    def __init__(self, host: Host, *, pods_dir: Path) -> None:
        self._host = host
        self._pods_dir = pods_dir
        self._choosing = anyio.Lock()

    async def lacks(self, model: DetectedModel, card: DetectedCard) -> Lack | None:
        if not self._host.exists(DRIVER):
            return Lack(f"{DRIVER} is not on this host", f"copy or link the DTK that is installed to {DRIVER}")
        if not card.location.pci_bus_id or not model.cores:
            return Lack(
                f"the PCI address or the number of compute units of {model.product} is not known",
                "let the detector tell both",
            )
        return None

    async def enforce(self, grant: Grant, card: DetectedCard, budget: Budget) -> Response:
        directory = self._pods_dir / grant.pod.uid / grant.container["name"] / "vdev"
        mine = directory / _FILE
        async with self._choosing:
            slices = dict(self._slices(card))
            before = slices.pop(mine, None)
            others = list(slices.values())
            vdev = plan(card, compute_units=grant.model.cores, budget=budget, others=others, before=before)
            write_whole(mine, vdev.render())
        # Read-only: the files are also what the next slice is chosen by, and a container must not move its neighbours.
        return Response(mounts=(HostMount(_CONFIG_DIRECTORY, str(directory)), HostMount(IN_CONTAINER, DRIVER)))

    def _slices(self, card: DetectedCard) -> Iterator[tuple[Path, Vdev]]:
        for path, content in each(self._pods_dir, f"*/*/vdev/{_FILE}"):
            try:
                yield path, read(content)
            except ValueError as error:
                raise ResponseRefused(
                    f"the slice on {card.id} cannot be placed: {path} is not readable ({error}); "
                    "delete the Pod whose uid it names"
                ) from error


def _lowest_free(taken: Iterator[int]) -> int:
    numbers = set(taken)
    return next(number for number in range(len(numbers) + 1) if number not in numbers)
