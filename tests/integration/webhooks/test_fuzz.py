"""Ten thousand reviews that nobody should send, to the webhooks in a process of their own.

Each gets an answer, no answer lets a wrong request pass, and the process is none the worse for it.
"""

import base64
import copy
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import anyio
import orjson
import psutil
import pytest

from gpustack_ctl.controllers import crd_install
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import name_of
from gpustack_ctl.kube.resources import INSTANCE_TYPES, NAMESPACES, SECRETS
from gpustack_ctl.localcluster import LocalCluster
from tests.gate1.cases import instance_types
from tests.gate1.mutations import Sent, sent
from tests.gate1.oracle import Offer, offers, violations
from tests.integration.webhooks.replica import free_port, unregister, until

NAMESPACE = "gate1-fuzz"
SEED, COUNT, CLIENTS = 20261201, 10_000, 8


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    url: str
    tls: ssl.SSLContext

    @property
    def resident_mib(self) -> float:
        return psutil.Process(self.pid).memory_info().rss / 2**20


@pytest.fixture(scope="module")
async def process(control_plane: LocalCluster) -> AsyncIterator[Process]:
    """The webhooks as a replica runs them, with the pools of the table."""
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig)) as kube:
        await crd_install.ensure(kube)
        await kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        for found in instance_types():
            await kube.create(INSTANCE_TYPES, found)
            await kube.patch(INSTANCE_TYPES, name_of(found), {"status": found["status"]}, subresource="status")
        port, metrics = free_port(), free_port()
        module = ("-m", "tests.bench.serve_webhooks")
        argv = [sys.executable, *module, str(control_plane.kubeconfig), NAMESPACE, str(port), str(metrics)]
        async with await anyio.open_process(argv, stdout=subprocess.DEVNULL, stderr=None) as running:
            try:
                await until("the webhooks", lambda: _ready(f"http://127.0.0.1:{metrics}/readyz"), seconds=20)
                secret = await kube.get(SECRETS, "gpustack-webhook-tls", NAMESPACE)
                trusted = base64.b64decode(secret["data"]["ca.crt"]).decode()
                tls = ssl.create_default_context(cadata=trusted)
                yield Process(running.pid, f"https://127.0.0.1:{port}", tls)
            finally:
                running.terminate()
                with anyio.CancelScope(shield=True):
                    await running.wait()
                    await unregister(kube)
                    for found in instance_types():
                        await kube.delete(INSTANCE_TYPES, name_of(found))
                    await kube.delete(NAMESPACES, NAMESPACE)


async def _ready(url: str) -> bool:
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(url) as response:
                return response.status == 200
        except aiohttp.ClientConnectionError:
            return False


async def test_ten_thousand_broken_reviews_are_answered_and_none_passes_that_may_not(process: Process):
    judge, reviews = Judge(), sent(SEED, COUNT)
    async with aiohttp.ClientSession() as session, anyio.create_task_group() as tasks:
        await _send(process, session, next(reviews), judge)
        before = process.resident_mib
        for _ in range(CLIENTS):
            tasks.start_soon(_send_all, process, session, reviews, judge)
    assert judge.faults == []
    assert sum(judge.answers.values()) == COUNT
    # What the seed sends reaches every kind of answer, so that the checks above are about something.
    assert min(judge.answers[kind] for kind in ("malformed", "refused", "allowed", "folded")) > COUNT // 50, (
        judge.answers
    )
    assert process.resident_mib < before + 64


async def _send_all(process: Process, session: aiohttp.ClientSession, reviews: Iterator[Sent], judge: "Judge") -> None:
    for each in reviews:
        await _send(process, session, each, judge)


async def _send(process: Process, session: aiohttp.ClientSession, each: Sent, judge: "Judge") -> None:
    with anyio.fail_after(15):
        async with session.post(process.url + each.path, data=each.body, ssl=process.tls) as response:
            judge.look(each, response.status, await response.read())


class Judge:
    """Reads the answers as an API server would, and believes none of them."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.faults: list[str] = []
        self._offers = offers()

    def look(self, each: Sent, status: int, body: bytes) -> None:
        kind, fault = self._read(each, status, body)
        self.answers[kind] += 1
        if fault:
            self.faults.append(f"{fault}: {each.path} {each.body[:2000]!r} → {status} {body[:2000]!r}")

    def _read(self, each: Sent, status: int, body: bytes) -> tuple[str, str]:
        if status == 400:
            return "malformed", "" if each.broken and body.strip() else "a whole review refused, or no reason given"
        if status != 200 or not _is_json(each.body):
            return "failed", "neither a verdict nor a reason"
        request = orjson.loads(each.body)["request"]
        response = orjson.loads(body)["response"]
        if response["uid"] != request["uid"]:
            return "failed", "another question's answer"
        if not response["allowed"]:
            return "refused", _unreadable(response["status"])
        patch = orjson.loads(base64.b64decode(response.get("patch", ""))) if "patch" in response else []
        return "folded" if patch else "allowed", self._wrong(each.path, request, patch)

    def _wrong(self, path: str, request: Any, patch: list[Any]) -> str:
        obj = patched(request["object"], patch)
        offer = self._offers.get((obj["metadata"].get("labels") or {}).get("kueue.x-k8s.io/queue-name", ""))
        queue = (obj["metadata"].get("labels") or {}).get("kueue.x-k8s.io/queue-name")
        if not queue or _exempt(path, request):
            return ""
        spec = obj["spec"]["template"]["spec"] if path.endswith("jobs") else obj["spec"]
        return ", ".join(violations(spec, offer or Offer()))


def _exempt(path: str, request: Any) -> bool:
    """Jobs that go or start are let alone."""
    obj = request["object"]
    starts = request.get("oldObject") is not None and not obj["spec"].get("suspend")
    return path.endswith("jobs") and bool(obj["metadata"].get("deletionTimestamp") or starts)


def _unreadable(status: Any) -> str:
    if (status["code"], status["reason"]) != (422, "Invalid"):
        return "not the API server's own form"
    causes = status["details"]["causes"]
    said = all(cause["field"].startswith("spec") and cause["message"] for cause in causes)
    return "" if causes and said and len(status["message"]) < 50_000 else "a refusal that says nothing, or too much"


def _is_json(body: bytes) -> bool:
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return True


def patched(obj: Any, patch: list[Any]) -> Any:
    """RFC 6902's add, replace and remove, strictly: what they need must be there."""
    obj = copy.deepcopy(obj)
    for operation in patch:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        parent = obj
        for part in way:
            parent = parent[int(part)] if isinstance(parent, list) else parent[part]
        key: Any = int(last) if isinstance(parent, list) else last
        if operation["op"] == "remove":
            del parent[key]
            continue
        assert operation["op"] == "add" or key in parent or isinstance(parent, list), operation
        parent[key] = operation["value"]
    return obj
