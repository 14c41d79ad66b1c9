"""What the kernel says of the cards without a driver: whether there are any, and where they hang.

It is the witness for "no accelerators": a driver that cannot be loaded proves nothing while a card is on the bus.
"""

from __future__ import annotations

import re
from pathlib import Path

SYSFS = Path("/sys")

#: Display and 3D controllers; cards bring audio and USB functions of the same vendor along.
_CARD_CLASSES = ("0x0300", "0x0302")


def cards_on_the_bus(pci_vendor: str, *, sysfs: Path = SYSFS) -> int | None:
    """How many cards of the vendor the PCI bus has; None when the kernel does not show the bus."""
    devices = sysfs / "bus" / "pci" / "devices"
    if not devices.is_dir():
        return None
    return sum(
        _read(device / "vendor") == f"0x{pci_vendor}" and _read(device / "class").startswith(_CARD_CLASSES)
        for device in devices.iterdir()
    )


def pci_root(bus_id: str, *, sysfs: Path = SYSFS) -> str:
    """The root complex that a device hangs from, e.g. `pci0000:00`; empty when the kernel does not show it."""
    device = (sysfs / "bus" / "pci" / "devices" / bus_id).resolve()
    return next((part for part in device.parts if _ROOT.fullmatch(part)), "")


def pci_class(bus_id: str, *, sysfs: Path = SYSFS) -> str:
    """The class of a device as six digits, e.g. `030200`; empty when the kernel does not show it."""
    return _read(sysfs / "bus" / "pci" / "devices" / bus_id / "class").removeprefix("0x")


def numa_node(bus_id: str, *, sysfs: Path = SYSFS) -> int | None:
    """The NUMA node of a device; None where the kernel knows none, which it writes as -1."""
    node = _read(sysfs / "bus" / "pci" / "devices" / bus_id / "numa_node")
    return int(node) if node.isdecimal() else None


_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
