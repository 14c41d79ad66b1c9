"""Responders: how each manufacturer's containers are shown their cards, and how its slices are held to their budget.

A new manufacturer is one line in `_whole`, and one in `_enforcer` where its cards can be sliced. NVIDIA's is a
responder of its own: its variable names partitions too, and its slices are told their limits even where no library
holds them to these.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpustack_ctl.accel.families import KeyKind, Manufacturer, Manufacturers
from gpustack_ctl.agent.responders.ascend import AscendEnforcer, NpuSmi, SharingAscendCards
from gpustack_ctl.agent.responders.cambricon import CambriconEnforcer
from gpustack_ctl.agent.responders.cndev import CnDev
from gpustack_ctl.agent.responders.device_nodes import DeviceNodesResponder
from gpustack_ctl.agent.responders.enforcer import Enforcer, HoldsHostState, SlicingResponder
from gpustack_ctl.agent.responders.host import Host
from gpustack_ctl.agent.responders.hygon import HygonEnforcer
from gpustack_ctl.agent.responders.metax import MetaxEnforcer, SysfsSubdevices
from gpustack_ctl.agent.responders.mthreads import MThreadsEnforcer
from gpustack_ctl.agent.responders.nvidia import NvidiaResponder
from gpustack_ctl.agent.responders.responder import Responder
from gpustack_ctl.agent.responders.visible_devices import VisibleDevicesResponder, by_driver_index
from gpustack_ctl.agent.switches import Switches


def responders(
    table: Manufacturers, *, switches: Switches, state_dir: Path, host: Host | None = None
) -> Mapping[str, Responder]:
    """Every manufacturer's responder, by its key."""
    host = host or Host()
    return {
        key: _responder(manufacturer, switches=switches, state_dir=state_dir, host=host)
        for key, manufacturer in table.by_key.items()
    }


def host_states(table: Manufacturers, by_key: Mapping[str, Responder]) -> Mapping[str, HoldsHostState]:
    """By the resource name of a slice, who takes away what such a slice left on the host."""
    return {
        table.by_key[key].key_for(KeyKind.SLICED): responder
        for key, responder in by_key.items()
        if isinstance(responder, HoldsHostState)
    }


def _responder(manufacturer: Manufacturer, *, switches: Switches, state_dir: Path, host: Host) -> Responder:
    if manufacturer.key == "nvidia":
        return NvidiaResponder(manufacturer, switches=switches, state_dir=state_dir)
    whole = _whole(manufacturer, switches=switches, host=host)
    enforcer = _enforcer(manufacturer, state_dir=state_dir, host=host)
    return SlicingResponder(manufacturer, whole, enforcer, switches=switches) if enforcer else whole


def _whole(manufacturer: Manufacturer, *, switches: Switches, host: Host) -> Responder:
    """How a card is shown: by its runtime's variable where it has one, else by its device nodes."""
    match manufacturer.key:
        case "ascend":
            shown = VisibleDevicesResponder(manufacturer, switches=switches, name=by_driver_index)
            return SharingAscendCards(shown, NpuSmi())
        case "iluvatar" | "mthreads":
            return VisibleDevicesResponder(manufacturer, switches=switches)
        case _:
            return DeviceNodesResponder(manufacturer, switches=switches, host=host)


def _enforcer(manufacturer: Manufacturer, *, state_dir: Path, host: Host) -> Enforcer | None:
    """What holds the manufacturer's slices to their budget; None where its cards cannot be sliced."""
    pods_dir = state_dir / "pods"
    match manufacturer.key:
        case "ascend":
            return AscendEnforcer(state_dir=state_dir)
        case "cambricon":
            return CambriconEnforcer(CnDev())
        case "hygon":
            return HygonEnforcer(host, pods_dir=pods_dir)
        case "metax":
            return MetaxEnforcer(SysfsSubdevices(host), pods_dir=pods_dir)
        case "mthreads":
            return MThreadsEnforcer(host)
    return None
