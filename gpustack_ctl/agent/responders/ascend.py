"""Ascend: vcann-rt's `libvruntime.so`, preloaded, held to a quota by a file; and the driver's container-share flag.

The library reads `npu_info.config`: the card by the driver's number, a free virtual number on it, the share of AI cores
and the memory. The file is in the Pod's work directory and ends with the Pod. The driver lets one container open a card
until the card's share flag is set, so it is read first and set when it is off; it is never turned off again, because
other containers would lose the card they run on.

Unverified on hardware. The keys of the file are those in vcann-rt's own sources (openEuler ubs-virt), its places in the
container those of its README; the flag's commands are those of HAMi's Ascend plugin, which has run them. That `npu-smi`
counts cards as the driver does holds where a card has one chip.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread

from gpustack_ctl.accel.families import Family
from gpustack_ctl.agent.files import write_whole
from gpustack_ctl.agent.inventory import DetectedCard, DetectedModel
from gpustack_ctl.agent.responders.enforcer import Budget, Lack, unless_set
from gpustack_ctl.agent.responders.host import each
from gpustack_ctl.agent.responders.responder import Grant, HostMount, Responder, Response, ResponseRefused, detected

_LIBRARY, _PRELOAD, _CONFIG = "libvruntime.so", "ld.so.preload", "npu_info.config"
_LIBRARY_INSIDE = f"/opt/enpu/vcann-rt/lib/{_LIBRARY}"
_CONFIG_INSIDE = f"/etc/enpu/vcann-rt/{_CONFIG}"

#: vcann-rt's policies: fixed share, elastic, best effort. Elastic lets a slice use what its neighbours leave idle.
_ELASTIC = 2


class ShareFlagError(Exception):
    """The driver's tool did not do as it was asked; the text is what it said."""


class ShareFlag(Protocol):
    """The flag of a card that lets more than one container open it. Cards are named by the driver's number."""

    async def is_set(self, card: int) -> bool:
        """Raises ShareFlagError."""
        ...

    async def set(self, card: int) -> None:
        """Raises ShareFlagError."""
        ...


class NpuSmi:
    """The flag through Huawei's own tool."""

    async def is_set(self, card: int) -> bool:
        told = await self._run("info", "-t", "device-share", "-i", str(card))
        return "True" in told and "False" not in told  # it says so of each chip on the card

    async def set(self, card: int) -> None:
        await self._run("set", "-t", "device-share", "-i", str(card), "-d", "1")

    async def _run(self, *arguments: str) -> str:
        return await to_thread.run_sync(self._ask, arguments)

    def _ask(self, arguments: tuple[str, ...]) -> str:
        try:
            # It asks back before it sets the flag.
            ran = subprocess.run(
                ["npu-smi", *arguments], input="Y\n", capture_output=True, text=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ShareFlagError(f"npu-smi: {error}") from error
        if ran.returncode != 0:
            raise ShareFlagError(f"npu-smi: {(ran.stderr or ran.stdout).strip() or f'exit {ran.returncode}'}")
        return ran.stdout


@dataclass(frozen=True, slots=True)
class NpuInfo:
    """One slice as vcann-rt reads it."""

    physical: int
    virtual: int
    cores: int
    memory_mib: int
    share_id: str

    def render(self) -> str:
        keys: Mapping[str, object] = {
            "physical-npu-id": self.physical,
            "virtual-npu-id": self.virtual,
            "aicore-quota": self.cores,
            "memory-quota": self.memory_mib,
            "shm-id": self.share_id,
            "scheduling-policy": _ELASTIC,
        }
        return "".join(f"{key}={value}\n" for key, value in keys.items())


def read(content: str) -> NpuInfo:
    """The inverse of `render`. Raises ValueError."""
    values = dict(line.split("=", 1) for line in content.splitlines())
    try:
        return NpuInfo(
            int(values["physical-npu-id"]),
            int(values["virtual-npu-id"]),
            int(values["aicore-quota"]),
            int(values["memory-quota"]),
            values["shm-id"],
        )
    except KeyError as error:
        raise ValueError(f"it has no {error}") from error


def plan(card: DetectedCard, budget: Budget, others: Collection[NpuInfo], *, before: NpuInfo | None = None) -> NpuInfo:
    """A slice beside the others of the node: the lowest virtual number that is free on its card.

    `before` is what a former, unheard answer to the same container chose, and is kept to.
    """
    physical = card.driver_index
    taken = {info.virtual for info in others if info.physical == physical}
    virtual = next(number for number in range(len(taken) + 1) if number not in taken)
    if before is not None and before.physical == physical and before.virtual not in taken:
        virtual = before.virtual
    return NpuInfo(physical, virtual, budget.cores, budget.memory_mib, card.id.replace(" ", "-"))


class SharingAscendCards:
    """Whole cards and shares. A card that two containers may open has its flag set first; a card held whole has not."""

    def __init__(self, shown: Responder, flag: ShareFlag) -> None:
        self._shown = shown
        self._flag = flag

    async def respond(self, grant: Grant) -> Response:
        if grant.family is not Family.EXCLUSIVE:
            for card in detected(grant):
                await share(self._flag, card)
        return await self._shown.respond(grant)


async def share(flag: ShareFlag, card: DetectedCard) -> None:
    """See to it that the card's flag is set. Raises ResponseRefused, naming card and flag."""
    unread = ""
    try:
        if await flag.is_set(card.driver_index):
            return
    except ShareFlagError as error:
        unread = f", nor read ({error})"
    try:
        await flag.set(card.driver_index)
    except ShareFlagError as error:
        raise ResponseRefused(
            f"the container-share flag (device-share) of {card.id} cannot be set{unread}: {error}; "
            f"set it on the host with: npu-smi set -t device-share -i {card.driver_index} -d 1"
        ) from error


class AscendEnforcer:
    """`state_dir` is where vcann-rt is staged and where Pods have their work directories."""

    def __init__(self, *, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._choosing = anyio.Lock()

    async def lacks(self, model: DetectedModel, _card: DetectedCard) -> Lack | None:
        library, preload = self._staged(model)
        missing = [path for path in (library, preload) if not path.is_file()]
        if not missing:
            return None
        return Lack(
            f"{' and '.join(map(str, missing))} missing",
            f"stage vcann-rt there (its {_LIBRARY}, and an {_PRELOAD} that reads {_LIBRARY_INSIDE})",
        )

    async def enforce(self, grant: Grant, card: DetectedCard, budget: Budget) -> Response:
        mine = self._state_dir / "pods" / grant.pod.uid / grant.container["name"] / _CONFIG
        async with self._choosing:
            others = [info for path, info in self._slices() if path != mine]
            write_whole(mine, plan(card, budget, others, before=_known(mine)).render())
        library, preload = self._staged(grant.model)
        return Response(
            envs=unless_set(grant, {"ENPU_LOG_LEVEL": "1"}),
            mounts=(
                HostMount(_LIBRARY_INSIDE, str(library)),
                HostMount(f"/etc/{_PRELOAD}", str(preload)),
                HostMount(_CONFIG_INSIDE, str(mine)),
            ),
        )

    def _slices(self) -> Iterator[tuple[Path, NpuInfo]]:
        for path, content in each(self._state_dir / "pods", f"*/*/{_CONFIG}"):
            try:
                yield path, read(content)
            except ValueError as error:
                raise ResponseRefused(
                    f"{path} is not readable ({error}), so no virtual number can be chosen beside it; "
                    "delete the Pod whose uid it names"
                ) from error

    def _staged(self, model: DetectedModel) -> tuple[Path, Path]:
        """vcann-rt is built for a CANN version and a chip family."""
        major = model.runtime_version.partition(".")[0] or "8"
        family = "-".join(filter(None, (f"cann-{major}", model.family.lower())))
        directory = self._state_dir / "lib" / "ascend"
        return directory / family / _LIBRARY, directory / _PRELOAD


def _known(path: Path) -> NpuInfo | None:
    try:
        return read(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
