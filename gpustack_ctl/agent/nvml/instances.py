"""MIG instances on the hardware: what lies where, making one at a place, taking one away.

A partition is a GPU instance (the slices) with one compute instance over all of it (what a program runs on), and the
MIG device of both has the UUID by which a container is shown it. Places are looked up anew in every call: the driver
gives the numbers of destroyed instances to later ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref, c_uint
from typing import Any, NamedTuple

import pynvml

from gpustack_ctl.accel.families import Manufacturer, published_profile
from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.agent.nvml.profiles import driver_profiles
from gpustack_ctl.agent.nvml.session import NvmlError, ask, ask_if_known
from gpustack_ctl.agent.partition_markers import Place


class Lying(NamedTuple):
    """A GPU instance on a card. `id` is its MIG device's UUID, empty without a compute instance."""

    placement: Placement
    id: str


def lying_on(card: str) -> list[Lying]:
    """Every GPU instance of a card. Raises NvmlError."""
    device = ask(pynvml.nvmlDeviceGetHandleByUUID, card)
    return [Lying(at, _uuid(device, handle)) for at, handle in _gpu_instances(device)]


def intervals_on(device: Any) -> list[Placement]:
    """The intervals that the GPU instances of a card take. Raises NvmlError."""
    return sorted(at for at, _ in _gpu_instances(device))


def make(place: Place, manufacturer: Manufacturer) -> str:
    """The UUID of the partition at the place; whatever of it is there already is taken. Raises NvmlError.

    Of a partition that could only half be made nothing stays.
    """
    device = ask(pynvml.nvmlDeviceGetHandleByUUID, place.card)
    gpu_instance = _at(device, place.placement)
    if gpu_instance is None:
        gpu_instance = _make_gpu_instance(device, place, manufacturer)
    if not list(_compute_instances(gpu_instance)):
        try:
            ask(pynvml.nvmlGpuInstanceCreateComputeInstance, gpu_instance, _whole_profile(gpu_instance))
        except NvmlError:
            ask(pynvml.nvmlGpuInstanceDestroy, gpu_instance)
            raise
    return _uuid(device, gpu_instance)


def take_away(place: Place, uuid: str) -> bool:
    """Destroy the partition at the place, if it is the one of that UUID; no UUID: whichever lies there.

    Whether there was one. Raises NvmlError, with the code for "in use" while a program runs on it: it then stays.
    """
    try:
        device = ask(pynvml.nvmlDeviceGetHandleByUUID, place.card)
    except NvmlError as error:
        if error.code == pynvml.NVML_ERROR_NOT_FOUND:
            return False
        raise
    gpu_instance = _at(device, place.placement)
    if gpu_instance is None:
        return False
    # Without a compute instance it has no UUID to compare: a former try got half of the way.
    if uuid and _uuid(device, gpu_instance) not in ("", uuid):
        return False
    for compute_instance in list(_compute_instances(gpu_instance)):
        ask(pynvml.nvmlComputeInstanceDestroy, compute_instance)
    ask(pynvml.nvmlGpuInstanceDestroy, gpu_instance)
    return True


def _make_gpu_instance(device: Any, place: Place, manufacturer: Manufacturer) -> Any:
    offered = {published_profile(manufacturer, profile.name): profile.id for profile in driver_profiles(device)}
    if place.profile not in offered:
        raise NvmlError("driver", pynvml.NVML_ERROR_NOT_FOUND, f"{place.card} does not offer {place.profile}")
    at = pynvml.c_nvmlGpuInstancePlacement_t(place.placement.start, place.placement.length)
    return ask(pynvml.nvmlDeviceCreateGpuInstanceWithPlacement, device, offered[place.profile], byref(at))


def _at(device: Any, placement: Placement) -> Any:
    return next((handle for at, handle in _gpu_instances(device) if at == placement), None)


def _gpu_instances(device: Any) -> Iterator[tuple[Placement, Any]]:
    """Every GPU instance; none outside MIG mode, which takes them all along when it is left."""
    if ask_if_known([0, 0], pynvml.nvmlDeviceGetMigMode, device)[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return
    for profile in driver_profiles(device):
        handles = (pynvml.c_nvmlGpuInstance_t * max(profile.info.instanceCount, 1))()
        count = c_uint(0)
        ask(pynvml.nvmlDeviceGetGpuInstances, device, profile.id, handles, byref(count))
        for handle in handles[: count.value]:
            info = ask(pynvml.nvmlGpuInstanceGetInfo, handle)
            yield Placement(info.placement.start, info.placement.size), handle


def _compute_instances(gpu_instance: Any) -> Iterator[Any]:
    for profile in _compute_profiles(gpu_instance):
        handles = (pynvml.c_nvmlComputeInstance_t * max(profile.instanceCount, 1))()
        count = c_uint(0)
        ask(pynvml.nvmlGpuInstanceGetComputeInstances, gpu_instance, profile.id, handles, byref(count))
        yield from handles[: count.value]


def _whole_profile(gpu_instance: Any) -> int:
    """The compute profile that takes every slice of the GPU instance."""
    largest = max(_compute_profiles(gpu_instance), key=lambda profile: int(profile.sliceCount))
    return int(largest.id)


def _compute_profiles(gpu_instance: Any) -> list[Any]:
    shared = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    found = []
    for kind in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            found.append(ask(pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo, gpu_instance, kind, shared, 1))
        except NvmlError as error:
            if error.code not in _NO_SUCH_KIND:
                raise
    return found


_NO_SUCH_KIND = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT})


def _uuid(device: Any, gpu_instance: Any) -> str:
    """The UUID of the MIG device on a GPU instance; empty while it has no compute instance."""
    wanted = ask(pynvml.nvmlGpuInstanceGetInfo, gpu_instance).id
    for index in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, device)):
        try:
            mig = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, device, index)
        except NvmlError as error:
            if error.code == pynvml.NVML_ERROR_NOT_FOUND:
                continue
            raise
        if ask(pynvml.nvmlDeviceGetGpuInstanceId, mig) == wanted:
            return str(ask(pynvml.nvmlDeviceGetUUID, mig))
    return ""
