"""One look at this host's accelerators, for a person or a script: what the agent would publish, and a recording."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.agent.config import BadConfigError, NodeAgentConfig
from gpustack_ctl.agent.hardware import open_hardware
from gpustack_ctl.agent.inventory import DetectedCard, DetectedModel, Inventory
from gpustack_ctl.agent.switches import switches

if TYPE_CHECKING:  # the driver's bindings are imported where a driver is asked
    from gpustack_ctl.agent.detectors.nvml import NvmlDetector


async def detect(config: NodeAgentConfig, record: Path | None = None) -> Inventory:
    """What the detector finds; `record` is a file for what the driver said.

    Raises DetectionError, BadConfigError, and DocumentError for a bad file.
    """
    if record is not None and config.detector != "nvml":
        raise BadConfigError("--record FILE keeps what NVIDIA's driver says; it goes with --detector nvml")
    table = manufacturers(config.env)
    hardware = open_hardware(config, table=table, switches=switches(config.env, manufacturers=table.by_key))
    if record is None:
        return await hardware.detector.detect()
    return await _recorded(cast("NvmlDetector", hardware.detector), record)


async def _recorded(detector: NvmlDetector, path: Path) -> Inventory:
    from gpustack_ctl.agent.nvml.snapshot import format_snapshot

    snapshot = await detector.snapshot()
    try:
        path.write_bytes(format_snapshot(snapshot))  # noqa: ASYNC240 - nothing else runs in this process
    except OSError as error:
        raise BadConfigError(f"--record {path}: {error.strerror}") from error
    return detector.derived(snapshot)


def text(inventory: Inventory) -> list[str]:
    """A line per card, under its model."""
    lines = [line for model in inventory.models for line in (_model(model), *map(_card, model.cards))]
    return lines or ["no accelerators"]


def _model(model: DetectedModel) -> str:
    facts = {"driver": model.driver_version, "CUDA": model.runtime_version, "compute": model.compute_capability}
    told = "".join(f", {name} {value}" for name, value in facts.items() if value)
    return f"{model.akey}: {len(model.cards)} × {model.product}, {model.memory_mib} MiB{told}"


def _card(card: DetectedCard) -> str:
    numa = "-" if card.location.numa is None else card.location.numa
    kind = " ".join(f"{profile.count}×{profile.name}" for profile in card.profiles) or f"{card.slots} slots"
    health = "healthy" if card.healthy else "UNHEALTHY"
    return f"  {card.index:>2}  {card.id}  {card.location.pci_bus_id or '-':12}  NUMA {numa}  {health:9}  {kind}"
