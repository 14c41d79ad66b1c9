"""MIG profiles as the driver offers them on a card: what they are called, what they take, where they may lie.

A driver that is old enough does not tell a profile's name, so the name can be worked out: its compute slices, and its
share of the card's memory in eighths, in the gigabytes that the card is sold with.
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref, c_uint
from math import ceil
from typing import Any, NamedTuple

import pynvml

from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.agent.nvml.session import NvmlError, ask, ask_if_known
from gpustack_ctl.agent.nvml.snapshot import ProfileReading

_MIB, _GIB = 1024**2, 1024**3


class DriverProfile(NamedTuple):
    """A profile by its name, the id by which the driver wants it named in calls, and what else the driver said."""

    id: int
    name: str
    info: Any


def driver_profiles(device: Any) -> Iterator[DriverProfile]:
    """Every GPU-instance profile of a card in MIG mode. Raises NvmlError."""
    memory_bytes = ask(pynvml.nvmlDeviceGetMemoryInfo, device).total
    for kind in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        info = _info(device, kind)
        if info is not None:
            name = getattr(info, "name", "").removeprefix("MIG ")
            yield DriverProfile(info.id, name or _worked_out(kind, info, memory_bytes), info)


def profile_readings(device: Any) -> Iterator[ProfileReading]:
    """The same with the places where each may lie. Raises NvmlError."""
    for profile in driver_profiles(device):
        yield ProfileReading(
            name=profile.name,
            memory_mib=profile.info.memorySizeMB,
            compute_slices=profile.info.sliceCount,
            count=profile.info.instanceCount,
            placements=_placements(device, profile.id),
        )


def _info(device: Any, kind: int) -> Any:
    """What the driver says of a profile, None where the card has no such; the answer without a name is the older."""
    for version in (2, 1):
        try:
            info = ask_if_known(None, pynvml.nvmlDeviceGetGpuInstanceProfileInfo, device, kind, version)
        except NvmlError as error:
            if error.code != pynvml.NVML_ERROR_INVALID_ARGUMENT:  # a kind of profile newer than the driver
                raise
            return None
        if info is not None:
            return info
    return None


def _placements(device: Any, profile_id: int) -> tuple[Placement, ...]:
    count = c_uint(0)
    ask_if_known(None, pynvml.nvmlDeviceGetGpuInstancePossiblePlacements, device, profile_id, None, byref(count))
    if not count.value:
        return ()
    places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    ask(pynvml.nvmlDeviceGetGpuInstancePossiblePlacements, device, profile_id, places, byref(count))
    return tuple(sorted(Placement(place.start, place.size) for place in places[: count.value]))


def _worked_out(kind: int, info: Any, memory_bytes: int) -> str:
    eighths = ceil(info.memorySizeMB * _MIB / memory_bytes * 8)
    gigabytes = round(eighths / 8 * ceil(memory_bytes / _GIB))
    return f"{info.sliceCount}g.{gigabytes}gb{_SUFFIXES.get(kind, '')}"


#: What tells profiles of one size apart in their names: the engines that they come with, or without.
_SUFFIXES = {
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1: "+me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1: "+me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_NO_ME: "-me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME: "-me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME: "+me.all",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME: "+me.all",
}
