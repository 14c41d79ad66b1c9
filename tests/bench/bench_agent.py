"""Gate 5's time under a burst, and what an agent weighs: 100 Pods at once on one real kubelet, 16 cards.

The kubelet admits one Pod after another and asks the agent twice for each. Times are the agent's own, from its
histograms: the upper bound of the bucket that holds the quantile. The containers start on the same two cores meanwhile.
"""

import shutil
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import anyio
from prometheus_client.parser import text_string_to_metric_families

from gpustack_ctl.controllers import crd_install
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.resources import DEVICES, NAMESPACES
from gpustack_ctl.localcluster import LocalCluster
from tests.e2e.agent.harness import NODE, Agent, Pods, container

PODS = 100
SIXTEEN = "cards: [{model: NVIDIA A10G, manufacturer: nvidia, count: 16, memoryMib: 24576}]"
IDLE_SECONDS = 20

_CALL = "gpustack_ctl_device_plugin_call_seconds"
_TIMES = (
    ("hint", _CALL, {"call": "hint"}, 25),
    ("Allocate", _CALL, {"call": "allocate"}, 25),
    ("lock held", "gpustack_ctl_node_lock_seconds", {}, 10),
    ("of it, the kubelet's answer", "gpustack_ctl_pod_resources_seconds", {}, None),
    ("of it, the journal's disk", "gpustack_ctl_journal_seconds", {}, None),
)


async def bench_agent(control_plane: LocalCluster, measured: Callable[..., None]) -> None:
    node = await control_plane.add_node(NODE)
    directory = Path(tempfile.mkdtemp(prefix="gsb-", dir="/tmp"))
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig)) as kube:
        await crd_install.ensure(kube)
        pods = Pods(kube, f"bench-{uuid.uuid4().hex[:8]}")
        await kube.create(NAMESPACES, {"metadata": {"name": pods.namespace}})
        agent = Agent(node=node, kubeconfig=control_plane.kubeconfig, kube=kube, directory=directory)
        try:
            await agent.start(SIXTEEN)
            spent = agent.cpu_seconds
            await anyio.sleep(IDLE_SECONDS)
            idle = (agent.cpu_seconds - spent) / IDLE_SECONDS * 100
            spent = agent.cpu_seconds
            await _burst(pods)
            busy = (agent.cpu_seconds - spent) / PODS * 1000
            metrics = await agent.metrics()
            resident = agent.resident_mib
        finally:
            with anyio.CancelScope(shield=True):
                await pods.clear()
                await agent.stop()
                await kube.delete(DEVICES, node.name)
    shutil.rmtree(directory)

    for name, histogram, labels, goal in _TIMES:
        measured(f"{name} p50", _quantile(metrics, histogram, 50, **labels), unit="ms")
        measured(f"{name} p99", _quantile(metrics, histogram, 99, **labels), unit="ms", goal=goal)
    measured("processor time, records and ledger included", busy, unit="ms a Pod")
    measured("resident after the burst", resident, unit="MiB", goal=130)
    measured("idle processor time", idle, unit="% of a core", goal=0.5)


async def _burst(pods: Pods) -> None:
    limits = {"nvidia.com/gpu.sliced": 1, "nvidia.com/gpu.sliced.memory-percentage": 10}
    async with anyio.create_task_group() as tasks:
        for number in range(PODS):
            tasks.start_soon(pods.create, f"pod-{number}", container("main", limits, command=["sleep", "3600"]))
    for number in range(PODS):
        await pods.record(f"pod-{number}")


def _quantile(metrics: str, name: str, percent: int, **labels: str) -> float:
    """In milliseconds."""
    counts: dict[float, float] = {}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name == f"{name}_bucket" and labels.items() <= sample.labels.items():
                bound = float(sample.labels["le"])
                counts[bound] = counts.get(bound, 0) + sample.value
    wanted = max(counts.values()) * percent / 100
    return min(bound for bound, count in counts.items() if count >= wanted) * 1000
