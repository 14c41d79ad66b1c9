"""A machine with NVIDIA's driver, as far as NVML can tell: the stub library, and the files that say what it answers."""

import ctypes
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

SOURCE = Path(__file__).parent / "nvml.c"
GIB = 1024**3

#: Kind and id as NVML numbers them, compute slices, how many fit, MiB, name, memory slices, starts.
A100_80 = (
    (0, 19, 1, 7, 9728, "1g.10gb", 1, range(7)),
    (7, 20, 1, 1, 9728, "1g.10gb+me", 1, range(7)),
    (9, 15, 1, 4, 19968, "1g.20gb", 2, (0, 2, 4, 6)),
    (1, 14, 2, 3, 19968, "2g.20gb", 2, (0, 2, 4)),
    (2, 9, 3, 2, 40192, "3g.40gb", 4, (0, 4)),
    (3, 5, 4, 1, 40192, "4g.40gb", 4, (0,)),
    (4, 0, 7, 1, 80640, "7g.80gb", 8, (0,)),
)


@dataclass(frozen=True)
class StubCard:
    """One card. `mig` is None for a card that cannot be partitioned, `advice` None for a driver that gives none."""

    uuid: str
    name: str = "NVIDIA A10G"
    memory: int = 24 * GIB
    cores: int = 9216
    bus_id: str = "00000000:01:00.0"
    pci_class: str = "0302"
    numa: int | None = 0
    cpus: str = "ffff"
    capability: str = "8.6"
    architecture: int = 7
    mig: bool | None = None
    advice: int | None = 0


def a100(uuid: str, *, mig: bool = True, **facts) -> StubCard:
    return replace(StubCard(uuid, "NVIDIA A100-SXM4-80GB", 80 * GIB, 6912, capability="8.0", mig=mig), **facts)


class Machine:
    """What the stub answers, to be changed while it is being asked."""

    def __init__(self, directory: Path, *cards: StubCard) -> None:
        self.directory = directory
        self.cards = list(cards)
        self.driver, self.cuda = "570.86.15", 12080
        self.profile_names = True
        self.save()

    def save(self) -> None:
        rows = [("driver", self.driver), ("cuda", self.cuda), *map(self._card, self.cards)]
        for kind, profile_id, slices, count, mib, name, length, starts in A100_80:
            shown = name if self.profile_names else ""
            rows.append(
                ("profile", "a100", kind, profile_id, slices, count, mib, shown, length, ",".join(map(str, starts)))
            )
        self._write("machine", rows)

    def change(self, index: int, **facts) -> None:
        self.cards[index] = replace(self.cards[index], **facts)
        self.save()

    def fault(self, function: str, code: int, *, card: str = "*", times: int = -1) -> None:
        """Let a call fail from now on, or that many times."""
        self._write("faults", [*self._read("faults"), (function, card, code, times)])

    def heal(self) -> None:
        self._write("faults", [])

    def tell(self, card: str, kind: int, data: int = 0) -> None:
        """An event, for whoever registered for its kind."""
        self._write("events", [*self._read("events"), (card, kind, data)])

    def instances(self) -> list[tuple[str, int, int, str]]:
        """Card, start, length and MIG UUID of every instance on the hardware."""
        return [(row[0], int(row[3]), int(row[4]), row[5]) for row in self._read("instances")]

    def use(self, mig: str, *, tries: int = -1) -> None:
        """A program runs on the instance: so many tries to destroy it fail, or all of them."""
        rows = self._read("instances")
        self._write("instances", [(*row[:6], tries) if row[5] == mig else row for row in rows])

    def put(self, card: str, profile_id: int, start: int, length: int, mig: str = "-", *, number: int = 60) -> None:
        """An instance that the agent did not make."""
        self._write("instances", [*self._read("instances"), (card, number, profile_id, start, length, mig, 0)])

    def reboot(self) -> None:
        """Instances do not outlive the driver."""
        self._write("instances", [])

    def _card(self, card: StubCard) -> tuple:
        numbers = [-1 if fact is None else int(fact) for fact in (card.numa, card.mig, card.advice)]
        return (
            "card", card.uuid, card.name, card.memory, card.cores, card.bus_id, card.pci_class, numbers[0], card.cpus,
            card.capability, card.architecture, numbers[1], "a100", numbers[2],
        )  # fmt: skip

    def _read(self, name: str) -> list[tuple[str, ...]]:
        path = self.directory / name
        return [tuple(line.split("|")) for line in path.read_text().splitlines()] if path.exists() else []

    def _write(self, name: str, rows: list[tuple]) -> None:
        """In one step: the stub may be reading."""
        fresh = self.directory / f"{name}.test"
        fresh.write_text("".join("|".join(map(str, row)) + "\n" for row in rows))
        fresh.replace(self.directory / name)


def build(directory: Path) -> Path:
    """Compile the stub; a compiler that is missing is an error. The library has the name that the bindings load."""
    library = directory / "libnvidia-ml.so.1"
    subprocess.run(
        [
            "gcc",
            "-shared",
            "-fPIC",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-Wl,-soname,{library.name}",
            "-o",
            library,
            SOURCE,
        ],
        check=True,
    )
    return library


def load(library: Path) -> None:
    """Put the stub where `dlopen` finds it: a library of that name that is loaded already is taken before any path."""
    ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_GLOBAL)
