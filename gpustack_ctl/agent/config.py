"""What one node agent is told at its start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class NodeAgentConfig:
    """`inventory` is the file that a simulated or a replayed detector reads.

    `env` holds the switches and the manufacturers' overrides.
    """

    node_name: str
    detector: str = "nvml"
    inventory: Path | None = None
    kubelet_dir: Path = Path("/var/lib/kubelet")
    state_dir: Path = Path("/var/lib/gpustack/operator")
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class BadConfigError(ValueError):
    """The agent cannot start as it was told to; the text says what to change."""
