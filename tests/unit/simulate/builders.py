"""Scenarios as text, and what comes of them."""

from typing import Any

import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.documents.marked import DocumentError
from gpustack_ctl.simulate.reading import read_scenario
from gpustack_ctl.simulate.run import simulate

TABLE = manufacturers()

A100 = "{model: nvidia-a100-sxm4-80gb, count: 8, memoryMib: 81920, mig: false, slots: 128}"
MIG = "{model: nvidia-a100-sxm4-80gb, count: 1, memoryMib: 81920, mig: true}"


def run(text: str) -> dict[str, Any]:
    """The document of a scenario."""
    return simulate(read_scenario(text, source="fleet.yaml", table=TABLE), table=TABLE).document()


def rows(text: str) -> dict[str, dict[str, Any]]:
    """The rows of a scenario by Workload."""
    return {row["workload"]: row for row in run(text)["workloads"]}


def faults(text: str) -> list[str]:
    """The faults of a scenario that cannot be read."""
    with pytest.raises(DocumentError) as raised:
        read_scenario(text, source="fleet.yaml", table=TABLE)
    return list(raised.value.faults)


def workload(name: str, *containers: str, rest: str = "") -> str:
    """A Workload of one PodSet: its containers' resources as YAML, and whatever else it has."""
    return f"{{name: {name}, {rest + ', ' if rest else ''}podSets: [{{containers: [{', '.join(containers)}]}}]}}"


def roles(name: str, *, rest: str = "", **pod_sets: tuple[int, str]) -> str:
    """A Workload of several PodSets: how many Pods of which container each has."""
    written = [
        f"{{name: {role}, count: {pods}, containers: [{container}]}}" for role, (pods, container) in pod_sets.items()
    ]
    return f"{{name: {name}, {rest + ', ' if rest else ''}podSets: [{', '.join(written)}]}}"


def a_slice(percent: int, cores: int | None = None) -> str:
    limited = "" if cores is None else f", nvidia.com/gpu.sliced.cores-percentage: {cores}"
    return f"{{nvidia.com/gpu.sliced: 1, nvidia.com/gpu.sliced.memory-percentage: {percent}{limited}}}"


def whole(cards: int) -> str:
    return f"{{nvidia.com/gpu: {cards}}}"


def partition(profile: str) -> str:
    return f"{{nvidia.com/gpu.partitioned: 1, nvidia.com/gpu.partitioned.mig-{profile}: 1}}"
