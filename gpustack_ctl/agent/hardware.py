"""The hardware of this node, real, simulated or recorded: what finds its cards, and what cuts them into partitions.

Each kind is imported when it is asked for: the driver's bindings are memory that only a node with such cards spends.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.agent.config import BadConfigError, NodeAgentConfig
from gpustack_ctl.agent.detectors.detector import Detector
from gpustack_ctl.agent.partitions import Partitions
from gpustack_ctl.agent.switches import Switches


@dataclass(frozen=True, slots=True)
class Hardware:
    detector: Detector
    partitions: Partitions


def open_hardware(config: NodeAgentConfig, *, table: Manufacturers, switches: Switches) -> Hardware:
    """The hardware behind the detector that was asked for. Raises BadConfigError, or DocumentError for a bad file."""
    match config.detector:
        case "nvml":
            return _nvml(config, table, switches)
        case "simulated":
            return _simulated(config, table, switches)
        case "replay":
            return _replay(config, table, switches)
    raise BadConfigError(f"--detector {config.detector}: write nvml, simulated or replay")


def _nvml(config: NodeAgentConfig, table: Manufacturers, switches: Switches) -> Hardware:
    from gpustack_ctl.agent.detectors.nvml import NvmlDetector
    from gpustack_ctl.agent.nvml.partitions import NvmlPartitions
    from gpustack_ctl.agent.nvml.session import Nvml
    from gpustack_ctl.agent.partition_markers import Markers

    if config.inventory is not None:
        raise BadConfigError("--inventory is for --detector simulated and replay; nvml asks the driver")
    nvml, markers = Nvml(), Markers(_markers(config))
    return Hardware(
        NvmlDetector(nvml, markers, table=table, group_id_with_memory=switches.group_id_with_memory),
        NvmlPartitions(nvml, markers, manufacturer=table.by_key["nvidia"]),
    )


def _simulated(config: NodeAgentConfig, table: Manufacturers, switches: Switches) -> Hardware:
    from gpustack_ctl.agent.detectors.inventory_file import load_inventory
    from gpustack_ctl.agent.detectors.simulated import SimulatedDetector
    from gpustack_ctl.agent.simulated_partitions import SimulatedPartitions

    path = _inventory(config, "a YAML list of cards")
    try:
        file = load_inventory(path, table=table)
    except OSError as error:
        raise BadConfigError(f"--inventory {path}: {error.strerror}") from error
    detector = SimulatedDetector(
        file, node_name=config.node_name, table=table, group_id_with_memory=switches.group_id_with_memory
    )
    return Hardware(detector, SimulatedPartitions(_markers(config), file.call_failures))


def _replay(config: NodeAgentConfig, table: Manufacturers, switches: Switches) -> Hardware:
    from gpustack_ctl.agent.detectors.replay import ReplayDetector
    from gpustack_ctl.agent.nvml.snapshot import load_snapshot
    from gpustack_ctl.agent.simulated_partitions import SimulatedPartitions

    path = _inventory(config, "what `node-agent detect --record FILE` wrote")
    try:
        snapshot = load_snapshot(path)
    except OSError as error:
        raise BadConfigError(f"--inventory {path}: {error.strerror}") from error
    detector = ReplayDetector(snapshot, table=table, group_id_with_memory=switches.group_id_with_memory)
    return Hardware(detector, SimulatedPartitions(_markers(config)))


def _inventory(config: NodeAgentConfig, what: str) -> Path:
    if config.inventory is None:
        raise BadConfigError(f"--detector {config.detector} needs --inventory FILE, {what}")
    return config.inventory


def _markers(config: NodeAgentConfig) -> Path:
    return config.state_dir / "partitions"
