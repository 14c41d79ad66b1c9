"""What a caller wants of a local cluster, and what it is told about one."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def default_directory() -> Path:
    """Where `local up` keeps its run when nobody says otherwise."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "gpustack-ctl" / "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A cluster to bring up.

    ``kueue`` is merged over the default Kueue ``Configuration`` key by key (lists replace lists).
    ``flags`` adds command-line flags to a program by its name, for instance
    ``{"kube-controller-manager": ("--node-monitor-grace-period=10m",)}``.
    ``audit`` makes the API server write ``<directory>/logs/audit.log``, one JSON line for each finished request.
    ``die_with_parent`` ends every program when the process that started it ends, however it ends.
    """

    directory: Path = field(default_factory=default_directory)
    kubelet: bool = True
    node_name: str = "gpustack-local"
    fake_nodes: int = 0
    kueue: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    audit: bool = False
    die_with_parent: bool = False

    def __post_init__(self) -> None:
        """Programs are started again from other working directories than ours."""
        object.__setattr__(self, "directory", self.directory.expanduser().absolute())


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    """One program of a run: alive and answering (``ready``), or not."""

    name: str
    pid: int
    ready: bool
    log: Path


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A run as a whole; ``up`` only when every program of it is ready."""

    up: bool
    directory: Path
    kubeconfig: Path | None
    programs: tuple[ProgramStatus, ...]

    def document(self) -> dict[str, Any]:
        """The JSON document of `local status`."""
        return {
            "up": self.up,
            "kubeconfig": str(self.kubeconfig) if self.kubeconfig else None,
            "programs": [
                {"name": program.name, "pid": program.pid, "ready": program.ready, "log": str(program.log)}
                for program in self.programs
            ],
        }
