"""Gate 1's time, by its own clock and by the API server's, next to Kueue's webhook over the same Pods in the same
run.

Pods are created as dry runs at a steady pace, so that nothing but admission happens; each is two reviews of
ours, one that folds and one that validates. The webhooks run in a process of their own.
"""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import aiohttp
import anyio
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.naming import entrance_name
from gpustack_ctl.controllers import crd_install
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import ApiError
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import INSTANCE_TYPES, NAMESPACES, PODS
from gpustack_ctl.localcluster import LocalCluster
from gpustack_ctl.webhooks.gate1 import Gate1
from gpustack_ctl.webhooks.pods import pod_webhooks
from gpustack_ctl.webhooks.pools import Pools
from gpustack_ctl.webhooks.review import Allowed, Question
from tests.integration.webhooks.objects import pod
from tests.integration.webhooks.replica import free_port, unregister, until

TABLE = manufacturers()
REVIEWS_A_SECOND = 200
PODS_A_SECOND = REVIEWS_A_SECOND / 2
SECONDS = 20
CLIENTS = 16
NAMESPACE = "bench-webhook"
QUEUE = "gpustack-fnv64-c4680bb149644f1c"
POOL: Obj = {
    "metadata": {
        "name": "gpustack--nvidia-a10g-linux-amd64",
        "labels": {"schedule.gpustack.ai/queue-entrance": QUEUE},
    },
    "spec": {
        "acceleratable": True,
        "acceleratorGroup": "nvidia-a10g",
        "os": "linux",
        "arch": "amd64",
        "unitResources": {"cpu": "8", "ram": "64Gi"},
        "localStorage": "100Gi",
        "memory": "24576Mi",
    },
}
OURS = {"admit": "pods.mutation.worker.gpustack.ai", "validating": "pods.validation.worker.gpustack.ai"}
KUEUES = {"admit": "mpod.kb.io", "validating": "vpod.kb.io"}
STAGES = {"admit": "mutating", "validating": "validating"}

Samples = list[Sample]


async def bench_webhook(control_plane: LocalCluster, measured: Callable[..., None]) -> None:
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig)) as kube:
        await crd_install.ensure(kube)
        await kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await kube.apply(INSTANCE_TYPES, POOL, manager="bench")
        async with served(control_plane, kube) as metrics:
            await load(kube, seconds=3)  # connections open, code warm
            before = await of_server(kube), await of_webhook(metrics)
            spent = await processor_time(metrics)
            paced = await load(kube, seconds=SECONDS)
            spent = await processor_time(metrics) - spent
            after = await of_server(kube), await of_webhook(metrics)
        await kube.delete(INSTANCE_TYPES, POOL["metadata"]["name"])
        await kube.delete(NAMESPACES, NAMESPACE)
    server, webhook = (difference(*pair) for pair in zip(before, after, strict=True))

    measured(f"reviews a second, of {REVIEWS_A_SECOND} asked", 2 * paced, unit="1/s")
    buckets = reviews(webhook, "pods.mutation", "pods.validation")
    measured("review, server time, p50", quantile(buckets, 0.5) * 1000, unit="ms", goal=1)
    measured("review, server time, p99", quantile(buckets, 0.99) * 1000, unit="ms", goal=5)
    measured("review, processor time of the process", spent / buckets[float("inf")] * 1000, unit="ms")
    for stage, said in STAGES.items():
        ours, kueues = (
            [sample for sample in server if sample.labels.get("name") == names[stage]] for names in (OURS, KUEUES)
        )
        measured(f"{said} webhook as the API server sees it, mean", mean(ours), unit="ms", peer=mean(kueues))
        for limit in (0.005, 0.025):
            measured(
                f"{said} webhook as the API server sees it, over {limit * 1000:.0f} ms",
                beyond(ours, limit),
                unit="%",
                peer=beyond(kueues, limit),
            )


@pytest.mark.parametrize("count", [1, 5000])
async def bench_decision(
    control_plane: LocalCluster, measured: Callable[..., None], milliseconds: Callable[..., float], count: int
) -> None:
    """One review decided, with so many pools known: the look-up goes by an index, so their number costs nothing."""
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig)) as kube:
        informers = Informers(kube)  # never started: what it holds is what is put in
        gate = Gate1(Pools(informers, TABLE), TABLE)
        for number in range(count):
            informers.of(INSTANCE_TYPES).observe(_pool_of_many(number))
        question = Question("u", "CREATE", "Pod", "", asking(0))
        decided = pod_webhooks(gate)[0].decide(question)
        assert isinstance(decided, Allowed)
        assert decided.patch
        spent = milliseconds(pod_webhooks(gate)[0].decide, question)
    measured(f"fold and rules of one Pod, {count:,} InstanceTypes known", spent, unit="ms", goal=1)


def bench_lint(measured: Callable[..., None], tmp_path: Path) -> None:
    """The whole command, as a person waits for it: the interpreter's start, YAML, and a judgement for each Pod."""
    pods, types = tmp_path / "pods.yaml", tmp_path / "types.yaml"
    pods.write_text(
        yaml.safe_dump_all([{"apiVersion": "v1", "kind": "Pod", **asking(number)} for number in range(1000)])
    )
    types.write_text(yaml.safe_dump({"apiVersion": INSTANCE_TYPES.api_version, "kind": INSTANCE_TYPES.kind, **POOL}))
    argv = [sys.executable, "-m", "gpustack_ctl", "lint", str(pods), "--instance-types", str(types)]
    started, before = perf_counter(), _of_children()
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("1000 admitted, 0 refused, 0 not looked at\n")
    measured("lint of 1,000 Pods", perf_counter() - started, unit="s", goal=3)
    measured("lint of 1,000 Pods, processor time", _of_children() - before, unit="s")


def _of_children() -> float:
    """Processor time of the processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _pool_of_many(number: int) -> Obj:
    """The pool of all questions, and others."""
    if number == 0:
        return {**POOL, "metadata": {**POOL["metadata"], "resourceVersion": "1"}}
    name = f"gpustack--nvidia-model-{number}-linux-amd64"
    labels = {"schedule.gpustack.ai/queue-entrance": entrance_name(name)}
    return {**POOL, "metadata": {"name": name, "labels": labels, "resourceVersion": "1"}}


@asynccontextmanager
async def served(control_plane: LocalCluster, kube: Kube) -> AsyncIterator[str]:
    """The webhooks, registered; yields where their metrics are."""
    port, metrics = free_port(), free_port()
    module = "tests.bench.serve_webhooks"
    argv = [sys.executable, "-m", module, str(control_plane.kubeconfig), NAMESPACE, str(port), str(metrics)]
    async with await anyio.open_process(argv, stdout=None, stderr=None) as process:
        try:
            await until("gate 1", lambda: _folds(kube), seconds=20)
            yield f"http://127.0.0.1:{metrics}/metrics"
        finally:
            process.terminate()
            await process.wait()
            await unregister(kube)


async def load(kube: Kube, *, seconds: float) -> float:
    """Create Pods at the pace that was asked for, or as near as the machine comes; answers the pace that came out."""
    started = perf_counter()
    count = int(seconds * PODS_A_SECOND)
    numbers = iter(range(count))

    async def create() -> None:
        for number in numbers:
            await anyio.sleep(max(0.0, started + number / PODS_A_SECOND - perf_counter()))
            await _create(kube, number)

    async with anyio.create_task_group() as tasks:
        for _ in range(CLIENTS):
            tasks.start_soon(create)
    return count / (perf_counter() - started)


async def _create(kube: Kube, number: int) -> Obj:
    return await kube.create(PODS, asking(number), dry_run=True)


def asking(number: int) -> Obj:
    """A Pod as people write them, half a card by MiB."""
    limits = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-mib": "12288"}
    asked = pod(f"half-{number}", NAMESPACE, QUEUE, limits)
    asked["spec"]["containers"][0]["env"] = [{"name": f"VARIABLE_{at}", "value": "x" * 25} for at in range(12)]
    return asked


async def _folds(kube: Kube) -> bool:
    try:
        stored = await _create(kube, 0)
    except ApiError:
        return False
    return "nvidia.com/gpu.sliced.units" in stored["spec"]["containers"][0]["resources"]["limits"]


async def of_server(kube: Kube) -> Samples:
    text = (await kube.raw("/metrics")).decode()
    return named(text, "apiserver_admission_webhook_admission_duration_seconds")


async def of_webhook(url: str) -> Samples:
    return named(await _page(url), "gpustack_ctl_webhook_review_seconds")


async def processor_time(url: str) -> float:
    """Seconds: what a review costs a core, whoever else wants it; TLS and HTTP included."""
    (sample,) = named(await _page(url), "process_cpu_seconds_total")
    return sample.value


async def _page(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.text()


def named(text: str, name: str) -> Samples:
    lines = "\n".join(line for line in text.splitlines() if line.startswith((name, f"# TYPE {name}")))
    return [sample for family in text_string_to_metric_families(lines) for sample in family.samples]


def difference(before: Samples, after: Samples) -> Samples:
    old = {(sample.name, *sorted(sample.labels.items())): sample.value for sample in before}
    return [
        sample._replace(value=sample.value - old.get((sample.name, *sorted(sample.labels.items())), 0))
        for sample in after
    ]


def reviews(samples: Samples, *webhooks: str) -> dict[float, float]:
    """How many reviews took at most so many seconds."""
    return buckets_of(sample for sample in samples if sample.labels["webhook"].startswith(webhooks))


def buckets_of(samples: Iterable[Sample]) -> dict[float, float]:
    buckets: dict[float, float] = {}
    for sample in samples:
        if sample.name.endswith("_bucket"):
            limit = float(sample.labels["le"])
            buckets[limit] = buckets.get(limit, 0) + sample.value
    return dict(sorted(buckets.items()))


def quantile(buckets: dict[float, float], share: float) -> float:
    """Interpolated within its bucket, as Prometheus does."""
    rank, low, below = share * buckets[float("inf")], 0.0, 0.0
    for limit, count in buckets.items():
        if count >= rank:
            return low + (limit - low) * (rank - below) / (count - below)
        low, below = limit, count
    return low


def mean(samples: Samples) -> float:
    """In milliseconds."""
    total, count = (sum(sample.value for sample in samples if sample.name.endswith(end)) for end in ("_sum", "_count"))
    return total / count * 1000


def beyond(samples: Samples, limit: float) -> float:
    buckets = buckets_of(samples)
    return 100 * (1 - buckets[limit] / buckets[float("inf")])
