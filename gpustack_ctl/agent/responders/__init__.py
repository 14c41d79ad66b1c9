"""Responders: how each manufacturer's containers are shown their cards.

A new manufacturer is one class here and one row in `_responder`; nobody else asks which manufacturer it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpustack_ctl.accel.families import Manufacturer, Manufacturers
from gpustack_ctl.agent.responders.nvidia import NvidiaResponder
from gpustack_ctl.agent.responders.responder import Responder
from gpustack_ctl.agent.responders.visible_devices import NotYetResponder, VisibleDevicesResponder
from gpustack_ctl.agent.switches import Switches


def responders(table: Manufacturers, *, switches: Switches, state_dir: Path) -> Mapping[str, Responder]:
    """Every manufacturer's responder, by its key."""
    return {
        key: _responder(manufacturer, switches=switches, state_dir=state_dir)
        for key, manufacturer in table.by_key.items()
    }


#: Their runtime reads one variable and does the rest. The others need device nodes of their own.
_BY_VARIABLE = frozenset({"iluvatar", "mthreads"})


def _responder(manufacturer: Manufacturer, *, switches: Switches, state_dir: Path) -> Responder:
    if manufacturer.key == "nvidia":
        return NvidiaResponder(manufacturer, switches=switches, state_dir=state_dir)
    if manufacturer.key in _BY_VARIABLE:
        return VisibleDevicesResponder(manufacturer, switches=switches)
    return NotYetResponder(manufacturer)
