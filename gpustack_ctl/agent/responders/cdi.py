"""Cards named in CDI annotations, and the specifications that say what such a name stands for.

NVIDIA, Ascend, Iluvatar and MThreads write specifications with tools of their own. Manufacturers whose cards are mere
device nodes have no such tool, so theirs are written here, before the annotation that names them leaves this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gpustack_ctl.accel.families import Manufacturer
from gpustack_ctl.agent.files import write_whole
from gpustack_ctl.agent.responders.host import Host
from gpustack_ctl.agent.responders.responder import DeviceNode

#: Where container runtimes look for specifications that do not outlive a boot.
DIRECTORY = Path("/var/run/cdi")

_PREFIX = "cdi.k8s.io/gpustack_"
_VERSION = "0.5.0"


def annotation(manufacturer: Manufacturer, names: Iterable[str]) -> dict[str, str]:
    """The annotation by which a container runtime injects the named devices."""
    return {f"{_PREFIX}{manufacturer.key}": ",".join(f"{manufacturer.base}={name}" for name in names)}


@dataclass(frozen=True, slots=True)
class CdiDevice:
    name: str
    nodes: tuple[DeviceNode, ...]


class CdiSpecification:
    """The specifications of one manufacturer's cards on this host, one file per model."""

    def __init__(self, manufacturer: Manufacturer, host: Host) -> None:
        self._manufacturer = manufacturer
        self._host = host

    def write(self, group: str, devices: Sequence[CdiDevice], control: Sequence[DeviceNode]) -> None:
        """Write the model's file where it reads differently. Raises OSError."""
        content = orjson.dumps(document(self._manufacturer, devices, control), option=orjson.OPT_INDENT_2).decode()
        path = self._host.at(DIRECTORY / f"gpustack-{self._manufacturer.key}-{group}.json")
        if not path.is_file() or path.read_text(encoding="utf-8") != content:
            write_whole(path, content)


def document(manufacturer: Manufacturer, devices: Sequence[CdiDevice], control: Sequence[DeviceNode]) -> dict[str, Any]:
    """The specification: each card's own nodes under its name, the control nodes with whichever is named."""
    specified = [{"name": device.name, "containerEdits": _edits(device.nodes)} for device in devices]
    return {
        "cdiVersion": _VERSION,
        "kind": manufacturer.base,
        "devices": specified,
        **({"containerEdits": _edits(control)} if control else {}),
    }


def _edits(nodes: Sequence[DeviceNode]) -> dict[str, Any]:
    return {"deviceNodes": [{"path": node.path, "permissions": node.permissions} for node in nodes]}
