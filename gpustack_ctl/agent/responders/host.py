"""The node's own file system, as a responder asks it.

An agent in a Pod sees the host below some directory, and a test has one of its own making, so every path of the host is
written as the host would and looked up below a root.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PCI = Path("/sys/bus/pci/devices")


@dataclass(frozen=True, slots=True)
class Host:
    root: Path = Path("/")

    def at(self, path: str | Path) -> Path:
        """Where this process finds the host's `path`."""
        return self.root / Path(path).relative_to("/")

    def exists(self, path: str | Path) -> bool:
        return self.at(path).exists()

    def pci(self, bus_id: str) -> Path:
        """The directory of a PCI function in the host's /sys."""
        return self.at(_PCI) / bus_id.lower()

    def drm_nodes(self, bus_id: str) -> tuple[str, ...]:
        """The card and render nodes that the kernel made for a PCI function, `/dev/dri/card0` first."""
        try:
            names = sorted(entry.name for entry in (self.pci(bus_id) / "drm").iterdir())
        except OSError:
            return ()
        return tuple(f"/dev/dri/{name}" for name in names if name.startswith(("card", "renderD")))


def each(directory: Path, pattern: str) -> Iterator[tuple[Path, str]]:
    """The files below a directory that match, with their content. Raises OSError."""
    for path in sorted(directory.glob(pattern)):
        yield path, path.read_text(encoding="utf-8")
