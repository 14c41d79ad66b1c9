"""Responders: how each manufacturer's containers are shown their cards.

A new manufacturer is one class here and one row in `responder_for`; nobody else asks which manufacturer it is.
"""

from __future__ import annotations

from pathlib import Path

from gpustack_ctl.accel.families import Manufacturer
from gpustack_ctl.agent.responders.nvidia import NvidiaResponder
from gpustack_ctl.agent.responders.responder import Responder
from gpustack_ctl.agent.responders.visible_devices import NotYetResponder, VisibleDevicesResponder
from gpustack_ctl.agent.switches import Switches


def responder_for(manufacturer: Manufacturer, *, switches: Switches, state_dir: Path) -> Responder:
    """The responder of a manufacturer."""
    if manufacturer.key == "nvidia":
        return NvidiaResponder(manufacturer, switches=switches, state_dir=state_dir)
    if manufacturer.key in _BY_VARIABLE:
        return VisibleDevicesResponder(manufacturer, switches=switches)
    return NotYetResponder(manufacturer)


#: Their runtime reads one variable and does the rest. The others need device nodes of their own.
_BY_VARIABLE = frozenset({"iluvatar", "mthreads"})
