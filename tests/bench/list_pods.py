"""List every Pod once, in a process of its own, and print how long it took and what it weighs: `ours` or `peer`.

The peer is kubernetes-asyncio's own client, which is what one would use without an informer.
"""

import sys
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
import orjson

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import Obj, labels_of
from gpustack_ctl.kube.resources import PODS

_PAGE_BYTES = 4096


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES / 2**20


def placement_only(obj: Obj) -> Obj:
    """About what a scheduler of cards wants of a Pod."""
    spec, status = obj["spec"], obj["status"]
    kept = {
        "metadata": obj["metadata"],
        "spec": {"nodeName": spec.get("nodeName")},
        "status": {"phase": status["phase"]},
    }
    return {"apiVersion": "v1", "kind": "Pod", **kept}


async def ours(kubeconfig: str, *, keep: Callable[[Obj], Obj] | None = None) -> Collection[Any]:
    async with Kube.connect(kubeconfig=kubeconfig) as kube:
        informers = Informers(kube)
        pods = informers.of(PODS, keep=keep)
        pods.add_index("node", lambda obj: [obj["spec"].get("nodeName") or ""])
        pods.add_index("queue", lambda obj: [labels_of(obj)["kueue.x-k8s.io/queue-name"]])
        async with anyio.create_task_group() as tasks:
            await tasks.start(informers.run)
            await informers.wait_synced()
            tasks.cancel_scope.cancel()
        return pods


async def ours_slim(kubeconfig: str) -> Collection[Any]:
    return await ours(kubeconfig, keep=placement_only)


async def peer(kubeconfig: str) -> Collection[Any]:
    from kubernetes_asyncio import client, config

    await config.load_kube_config(kubeconfig)
    async with client.ApiClient() as api:
        pods: list[Any] = (await client.CoreV1Api(api).list_pod_for_all_namespaces()).items
        return pods


async def main(who: str, kubeconfig: str) -> None:
    ways: dict[str, Callable[[str], Awaitable[Collection[Any]]]] = {"ours": ours, "ours-slim": ours_slim, "peer": peer}
    before, started = resident_mib(), perf_counter()
    pods = await ways[who](kubeconfig)
    figures = {"count": len(pods), "seconds": perf_counter() - started, "mib": resident_mib(), "before_mib": before}
    sys.stdout.write(orjson.dumps(figures).decode())


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
