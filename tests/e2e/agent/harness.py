"""The node agent as a process of its own, so that it can really be killed, and Pods bound straight to its node."""

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import orjson
import psutil
from anyio import to_thread

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import NotFound
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import DEVICES, NODES, PODS
from gpustack_ctl.localcluster.node import LocalNode

NODE = "agent-node"

FOUR_A10G = """
cards:
- {model: NVIDIA A10G, manufacturer: nvidia, count: 4, memoryMib: 24576, cores: 9216, numa: [0, 0, 1, 1]}
"""


async def until(what: str, look: Callable[[], Awaitable[Any]], *, seconds: float = 30) -> Any:
    """What `look` finds, once it finds something."""
    with anyio.move_on_after(seconds):
        while True:
            found = await look()
            if found:
                return found
            await anyio.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


class Agent:
    """One node's agent, across the processes that it lives in."""

    def __init__(self, *, node: LocalNode, kubeconfig: Path, kube: Kube, directory: Path) -> None:
        self.node = node
        self.kube = kube
        self.directory = directory
        self.state_dir = directory / "state"
        self.log = directory / "agent.log"
        self._kubeconfig = kubeconfig
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def resident_mib(self) -> float:
        return psutil.Process(self.pid).memory_info().rss / 2**20

    @property
    def cpu_seconds(self) -> float:
        """Processor time the process has used."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def spawn(self, inventory: str = FOUR_A10G, *, port: int = 0, **env: str) -> subprocess.Popen[bytes]:
        """Start a process; nothing is waited for."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [
                    *(str(Path(sys.executable).with_name("gpustack-ctl")), "node-agent"),
                    *("--kubeconfig", str(self._kubeconfig), "--node-name", self.node.name),
                    *(*self._detector(inventory), "--kubelet-dir", str(self.node.kubelet_dir)),
                    *("--state-dir", str(self.state_dir), "--metrics-port", str(port), "--log-format", "text"),
                ],
                env={**os.environ, "GPUSTACK_NVIDIA_SLICE_ISOLATION": "off", **env},
                stdout=log,
                stderr=log,
            )

    def _detector(self, inventory: str) -> tuple[str, ...]:
        file = self.directory / "inventory.yaml"
        file.write_text(inventory)
        return ("--detector", "simulated", "--inventory", str(file))

    async def start(self, inventory: str = FOUR_A10G, *, serves: str = "nvidia.com/gpu", **env: str) -> None:
        """Start, and wait until the node shows what the agent advertises and its ledger is published."""
        self._process = self.spawn(inventory, port=self._port, **env)
        await until("the agent is ready", self._ready)
        await until(f"node offers {serves}", lambda: self.allocatable(serves))
        await until("ledger published", self.cards)

    async def metrics(self) -> str:
        """What the agent serves to Prometheus."""
        return await to_thread.run_sync(self._get, "/metrics")

    async def _ready(self) -> bool:
        assert self.alive, f"the agent ended; see {self.log}:\n{self.log.read_text()[-2000:]}"
        try:
            return bool(await to_thread.run_sync(self._get, "/readyz"))
        except OSError:
            return False

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    async def kill(self) -> None:
        """kill -9."""
        await self._end(kill=True)

    async def stop(self) -> None:
        await self._end(kill=False)

    async def _end(self, *, kill: bool) -> None:
        if self._process is None:
            return
        if kill:
            self._process.kill()
        else:
            self._process.terminate()
        try:
            await to_thread.run_sync(lambda: self._process and self._process.wait(10))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the agent did not stop within 10 s; see {self.log}") from None
        finally:
            self._process = None

    async def allocatable(self, resource: str) -> int:
        node = await self.kube.get(NODES, self.node.name)
        return int(node["status"]["allocatable"].get(resource, "0"))

    async def cards(self) -> list[Obj]:
        """The published ledger's rows, in index order; none while there is no ledger."""
        try:
            devices = await self.kube.get(DEVICES, self.node.name)
        except NotFound:
            return []
        rows = [row for group in (devices.get("status") or {}).get("groups", ()) for row in group["accelerators"]]
        return sorted(rows, key=lambda row: int(row["index"]))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Pods:
    """Pods bound straight to the node, past every gate but the kubelet's."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self.namespace = namespace

    async def create(self, name: str, *containers: Obj, **spec: Any) -> Obj:
        named = [
            {
                "image": "gpustack.local/busybox:1",
                "imagePullPolicy": "Never",
                "command": ["sh", "-c", "env; sleep 3600"],
                **container,
            }
            for container in containers
        ]
        return await self._kube.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {
                    "nodeName": NODE,
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 0,
                    "containers": named,
                    **spec,
                },
            },
        )

    async def run(self, name: str, **limits: int) -> Obj:
        """A Pod of one container, seen running."""
        await self.create(name, container("main", limits))
        return await self.running(name)

    async def get(self, name: str) -> Obj:
        return await self._kube.get(PODS, name, self.namespace)

    async def in_phase(self, name: str, phase: str) -> Obj:
        async def look() -> Obj | None:
            pod = await self.get(name)
            found = pod["status"]["phase"]
            assert found in ("Pending", phase), f"{name} is {found}: {pod['status'].get('message')}"
            return pod if found == phase else None

        pod: Obj = await until(f"{name} is {phase}", look)
        return pod

    async def running(self, name: str) -> Obj:
        return await self.in_phase(name, "Running")

    async def record(self, name: str) -> dict[str, list[Obj]]:
        """The Pod's allocation record, once it is written: accelerators by container."""

        async def look() -> str | None:
            annotations = (await self.get(name))["metadata"].get("annotations") or {}
            return annotations.get("device.gpustack.ai/accelerator.allocated")

        written = orjson.loads(await until(f"{name} has an allocation record", look, seconds=10))
        return {
            name: [card for group in held["devices"]["groups"] for card in group["accelerators"]]
            for name, held in written.items()
        }

    async def env(self, name: str, container: str = "main") -> Mapping[str, str]:
        """The container's real environment, from its own log."""

        async def look() -> bytes:
            return await self._kube.raw(f"/api/v1/namespaces/{self.namespace}/pods/{name}/log?container={container}")

        lines = (await until(f"{name} printed its environment", look)).decode().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    async def delete(self, name: str) -> None:
        await self._kube.delete(PODS, name, self.namespace, grace_period=0)

    async def clear(self) -> None:
        for pod in await self._kube.list(PODS, self.namespace):
            await self._kube.delete(PODS, pod["metadata"]["name"], self.namespace)

        async def empty() -> bool:
            return not await self._kube.list(PODS, self.namespace)

        await until("every Pod is gone", empty, seconds=60)


def container(name: str, limits: Mapping[str, int], **rest: Any) -> Obj:
    return {"name": name, "resources": {"limits": {key: str(value) for key, value in limits.items()}}, **rest}
