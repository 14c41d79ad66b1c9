"""Nodes without a kubelet: enough for everything that happens before a Pod reaches one, and for scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeNode:
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=lambda: {"cpu": "64", "memory": "256Gi", "pods": "110"})


class FakeNodes:
    """Creates Nodes and keeps them Ready: leases, capacity mirrored into allocatable, bound Pods set Running."""

    def __init__(self, kubeconfig: Path, *, lease_seconds: float = 10, run_pods: bool = True) -> None:
        raise NotImplementedError

    async def add(self, nodes: Sequence[FakeNode]) -> None:
        """Create Nodes (or take them over) and return once each is Ready; run() keeps them so."""
        raise NotImplementedError

    async def remove(self, *names: str) -> None:
        raise NotImplementedError

    async def run(self) -> None:
        """Play the kubelet of every added node until cancelled: `tg.start_soon(nodes.run)`."""
        raise NotImplementedError
