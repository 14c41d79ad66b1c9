"""The hardware of this node, real or simulated: what finds its cards, and what cuts them into partitions."""

from __future__ import annotations

from dataclasses import dataclass

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
    if config.detector != "simulated":
        raise BadConfigError(f"--detector {config.detector}: not in this version; write simulated")
    if config.inventory is None:
        raise BadConfigError("--detector simulated needs --inventory FILE, a YAML list of cards")
    from gpustack_ctl.agent.detectors.inventory_file import load_inventory
    from gpustack_ctl.agent.detectors.simulated import SimulatedDetector
    from gpustack_ctl.agent.partitions import SimulatedPartitions

    try:
        file = load_inventory(config.inventory, table=table)
    except OSError as error:
        raise BadConfigError(f"--inventory {config.inventory}: {error.strerror}") from error
    detector = SimulatedDetector(
        file, node_name=config.node_name, table=table, group_id_with_memory=switches.group_id_with_memory
    )
    return Hardware(detector, SimulatedPartitions(config.state_dir / "partitions", file.call_failures))
