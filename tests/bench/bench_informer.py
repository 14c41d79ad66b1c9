"""How long 10,000 Pods take to be listed and indexed, and what they weigh.

An API server of its own, so that nothing else writes; each reader is a process of its own, so that memory is its own.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import anyio
import orjson

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import Obj, version_of
from gpustack_ctl.kube.resources import NAMESPACES, PODS
from gpustack_ctl.localcluster.assets import find_assets
from gpustack_ctl.localcluster.progress import Quiet
from tests.integration.kube.plane import plane_in

PODS_LISTED = 10_000
WRITERS = 24
EVENTS = 200


async def bench_informer(measured: Callable[..., None]) -> None:
    with TemporaryDirectory(prefix="bench-") as directory:
        async with plane_in(Path(directory), await find_assets(Quiet())) as plane:
            async with Kube.connect(kubeconfig=plane.kubeconfig()) as kube:
                await fill(kube)
                slowest = await watch_delay(kube)
            whole, slim, peer = [await read(who, plane.kubeconfig()) for who in ("ours", "ours-slim", "peer")]
    measured("10,000 Pods listed, indexed", whole["seconds"], unit="s", goal=6, peer=peer["seconds"])
    measured("10,000 Pods resident, whole", whole["mib"], unit="MiB", peer=peer["mib"])
    measured("10,000 Pods resident, slimmed", slim["mib"], unit="MiB")
    measured("resident before the first Pod", whole["before_mib"], unit="MiB")
    measured("our write to the watch's news of it, slowest of 200", slowest * 1000, unit="ms")


async def read(who: str, kubeconfig: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "tests.bench.list_pods", who, kubeconfig]
    figures: dict[str, Any] = orjson.loads((await anyio.run_process(argv)).stdout)
    assert figures["count"] == PODS_LISTED
    return figures


async def fill(kube: Kube) -> None:
    await kube.create(NAMESPACES, {"metadata": {"name": "bench"}})
    numbers = iter(range(PODS_LISTED))

    async def write() -> None:
        for number in numbers:
            await kube.create(PODS, pod(number))

    async with anyio.create_task_group() as tasks:
        for _ in range(WRITERS):
            tasks.start_soon(write)


async def watch_delay(kube: Kube) -> float:
    """The longest time from the answer to a write until an informer's handler hears of it, none if it was first."""
    informers = Informers(kube)
    pods = informers.of(PODS)
    answered: dict[int, float] = {}
    heard: dict[int, float] = {}

    def hear(_: Obj | None, new: Obj | None) -> None:
        if new is not None:
            heard[version_of(new)] = perf_counter()

    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        await informers.wait_synced()
        pods.subscribe(hear)
        for at in range(EVENTS):
            patch = {"metadata": {"labels": {"at": str(at)}}}
            written = await kube.patch(PODS, f"pod-{at:05}", patch, namespace="bench")
            answered[version_of(written)] = perf_counter()
        with anyio.fail_after(10):
            while not answered.keys() <= heard.keys():  # noqa: ASYNC110 — it waits for another program
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    return max(0.0, *(heard[version] - at for version, at in answered.items()))


def pod(number: int) -> Obj:
    """A Pod of ordinary size, about 2.5 KiB of spec."""
    limits = {
        "cpu": "4",
        "memory": "16Gi",
        "nvidia.com/gpu.sliced": "1",
        "nvidia.com/gpu.sliced.memory-percentage": "50",
    }
    return {
        "metadata": {
            "namespace": "bench",
            "name": f"pod-{number:05}",
            "labels": {"kueue.x-k8s.io/queue-name": "gpustack-fnv64-c4680bb149644f1c", "app": f"app-{number % 100}"},
        },
        "spec": {
            "nodeName": f"node-{number % 1000}",
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/team/model:1.2.3",
                    "command": ["python", "-m", "serve"],
                    "env": [{"name": f"VARIABLE_{at}", "value": "some value of some length"} for at in range(12)],
                    "resources": {"limits": limits},
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
        },
    }
