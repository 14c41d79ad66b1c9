"""One pass over the cards: everything that is asked of NVML, and how its answers become values.

A card that the driver has lost does not make the pass fail: the others still work, and the lost one keeps the identity
that it had, marked with the driver's words, so that its Pods stay accounted for. Any other error fails the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import structlog

from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.agent.nvml import host
from gpustack_ctl.agent.nvml.health import Health
from gpustack_ctl.agent.nvml.instances import intervals_on
from gpustack_ctl.agent.nvml.profiles import profile_readings
from gpustack_ctl.agent.nvml.session import NvmlError, ask, ask_if_known
from gpustack_ctl.agent.nvml.snapshot import CardReading, Snapshot

log = structlog.get_logger()

_LOST = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})

_FAMILIES = {
    pynvml.NVML_DEVICE_ARCH_KEPLER: "kepler",
    pynvml.NVML_DEVICE_ARCH_MAXWELL: "maxwell",
    pynvml.NVML_DEVICE_ARCH_PASCAL: "pascal",
    pynvml.NVML_DEVICE_ARCH_VOLTA: "volta",
    pynvml.NVML_DEVICE_ARCH_TURING: "turing",
    pynvml.NVML_DEVICE_ARCH_AMPERE: "ampere",
    pynvml.NVML_DEVICE_ARCH_ADA: "ada-lovelace",
    pynvml.NVML_DEVICE_ARCH_HOPPER: "hopper",
    pynvml.NVML_DEVICE_ARCH_BLACKWELL: "blackwell",
}

#: Words of 64 bits: more CPUs and NUMA nodes than a machine has; NVML writes as many as it is given.
_CPU_WORDS, _NODE_WORDS = 32, 4


#: Cards and intervals where an instance of ours lies.
Occupied = Callable[[], Set[tuple[str, Placement]]]


def read_cards(
    health: Health, *, occupied: Occupied, before: Snapshot | None = None, sysfs: Path = host.SYSFS
) -> Snapshot:
    """What NVML says now; `before` is the last good answer. Raises NvmlError."""
    return Snapshot(
        driver_version=ask(pynvml.nvmlSystemGetDriverVersion),
        cuda_version=_cuda_version(),
        cards=tuple(_cards(health, occupied, before, sysfs)),
    )


def _cards(health: Health, occupied: Occupied, before: Snapshot | None, sysfs: Path) -> Iterator[CardReading]:
    for index in range(ask(pynvml.nvmlDeviceGetCount)):
        try:
            yield _card(index, health, occupied, sysfs)
        except NvmlError as error:
            if error.code not in _LOST:
                raise
            known = before.card(index) if before else None
            if known is None:
                log.warning("a card cannot say who it is, it is left out", index=index, error=str(error))
                continue
            health.card_was_away(known.uuid)
            yield replace(known, trouble=str(error))


def _card(index: int, health: Health, occupied: Occupied, sysfs: Path) -> CardReading:
    device = ask(pynvml.nvmlDeviceGetHandleByIndex, index)
    uuid = ask(pynvml.nvmlDeviceGetUUID, device)
    health.watch(device, uuid)
    bus_id = _bus_id(ask(pynvml.nvmlDeviceGetPciInfo_v3, device).busId)
    mig = ask_if_known([0, 0], pynvml.nvmlDeviceGetMigMode, device)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    capability = ask_if_known(None, pynvml.nvmlDeviceGetCudaComputeCapability, device)
    return CardReading(
        index=index,
        uuid=uuid,
        name=ask(pynvml.nvmlDeviceGetName, device),
        memory_bytes=ask(pynvml.nvmlDeviceGetMemoryInfo, device).total,
        cores=ask_if_known(0, pynvml.nvmlDeviceGetNumGpuCores, device),
        pci_bus_id=bus_id,
        pci_root_id=host.pci_root(bus_id, sysfs=sysfs),
        pci_class=_pci_class(device) or host.pci_class(bus_id, sysfs=sysfs),
        numa=_numa(device, bus_id, sysfs),
        cpus=ranges(ask_if_known((), pynvml.nvmlDeviceGetCpuAffinity, device, _CPU_WORDS)),
        compute_capability="{}.{}".format(*capability) if capability else "",
        family=_FAMILIES.get(ask_if_known(None, pynvml.nvmlDeviceGetArchitecture, device), ""),
        mig=mig,
        profiles=tuple(profile_readings(device)) if mig else (),
        foreign=_foreign(device, uuid, occupied) if mig else (),
        trouble=health.trouble(device, uuid),
    )


def _foreign(device: Any, uuid: str, occupied: Occupied) -> tuple[Placement, ...]:
    """The intervals of instances that no marker names.

    A marker is there before its instance and after it, so one that is made or taken away meanwhile is in one of the
    two looks at the markers.
    """
    known = occupied()
    lying = intervals_on(device)
    known = known | occupied()
    return tuple(at for at in lying if (uuid, at) not in known)


def _cuda_version() -> str:
    """The newest CUDA that the driver runs, from a number such as 12040."""
    version = ask(pynvml.nvmlSystemGetCudaDriverVersion)
    return f"{version // 1000}.{version % 1000 // 10}"


def _bus_id(written: str) -> str:
    """The address as the kernel writes it; NVML gives the domain eight digits, in capitals."""
    domain, _, rest = written.lower().partition(":")
    return f"{domain[-4:] if domain.startswith('0000') else domain}:{rest}"


def _pci_class(device: Any) -> str:
    info = pynvml.nvmlPciInfoExt_v1_t(version=pynvml.nvmlPciInfoExt_v1)
    try:
        ask(pynvml.nvmlDeviceGetPciInfoExt, device, pynvml.byref(info))
    except NvmlError as error:
        if error.code in _LOST:
            raise
        return ""
    return f"{info.baseClass:02x}{info.subClass:02x}00"


def _numa(device: Any, bus_id: str, sysfs: Path) -> int | None:
    """The node that the card's memory is nearest to, by the driver, else by the kernel."""
    scope = pynvml.NVML_AFFINITY_SCOPE_NODE
    nodes = _bits(ask_if_known((), pynvml.nvmlDeviceGetMemoryAffinity, device, _NODE_WORDS, scope))
    return nodes[0] if nodes else host.numa_node(bus_id, sysfs=sysfs)


def ranges(words: Sequence[int]) -> str:
    """The bits of a mask as the kernel writes a list of CPUs: `0-15,32-47`."""
    spans: list[list[int]] = []
    for bit in _bits(words):
        if spans and bit == spans[-1][1] + 1:
            spans[-1][1] = bit
        else:
            spans.append([bit, bit])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def _bits(words: Sequence[int]) -> list[int]:
    return [at * 64 + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1]
