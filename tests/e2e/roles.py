"""The roles as a user starts them: the console script, each role a process of its own, so that it can be killed."""

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import anyio
import orjson
import psutil
from anyio import to_thread

from gpustack_ctl.kube.errors import NotFound
from gpustack_ctl.localcluster import LocalCluster, LocalNode
from gpustack_ctl.localcluster.processes import free_ports

T = TypeVar("T")

SCRIPT = Path(sys.executable).with_name("gpustack-ctl")

FOUR_A10G = "cards: [{model: NVIDIA A10G, manufacturer: nvidia, count: 4, memoryMib: 24576, cores: 9216}]\n"


async def until(what: str, look: Callable[[], Awaitable[T | None]], *, seconds: float = 30) -> T:
    """What `look` finds, once it finds something."""
    found = None
    with anyio.move_on_after(seconds):
        while True:
            try:
                found = await look()
            except NotFound:
                found = None
            if found:
                return found
            await anyio.sleep(0.1)
    raise AssertionError(f"not within {seconds:g} s: {what}; last seen {found!r}")


class Role:
    """One role, across the processes that it lives in; all of them write to one log."""

    def __init__(self, *arguments: str, log: Path, env: Mapping[str, str] | None = None) -> None:
        self.log = log
        self._port = free_ports(1)[0]
        self._argv = (str(SCRIPT), *arguments, "--metrics-port", str(self._port), "--log-format", "json")
        self._env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def resident_mib(self) -> float:
        return float(self._ps.memory_info().rss) / 2**20

    @property
    def cpu_seconds(self) -> float:
        """Processor time that the process has used."""
        times = self._ps.cpu_times()
        return float(times.user + times.system)

    @property
    def _ps(self) -> psutil.Process:
        assert self._process is not None
        return psutil.Process(self._process.pid)

    def spawn(self) -> None:
        """Start a process; nothing is waited for."""
        assert not self.alive
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._argv, env=self._env, stdout=log, stderr=log)

    async def start(self) -> None:
        """Start a process, and wait until it calls itself ready."""
        self.spawn()
        await until(f"{self._argv[1]} is ready", self._ready, seconds=60)

    async def kill(self) -> None:
        """kill -9."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        """SIGTERM, as a kubelet or a service manager sends it; the exit code."""
        return await self._end(signal.SIGTERM)

    async def metrics(self) -> str:
        """What the role tells Prometheus."""
        return await to_thread.run_sync(self._get, "/metrics")

    def lines(self) -> Iterator[dict[str, Any]]:
        """What was logged, line by line; a line that is no JSON has its text as the event, and is an error."""
        for line in self.log.read_bytes().splitlines():
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                yield {"event": line.decode(errors="replace"), "level": "error"}

    async def _end(self, number: signal.Signals) -> int:
        process = self._process
        assert process is not None
        process.send_signal(number)
        try:
            return await to_thread.run_sync(process.wait, 15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"{self._argv[1]} did not end within 15 s of {number.name}; see {self.log}") from None

    async def _ready(self) -> bool:
        assert self.alive, f"{self._argv[1]} ended; see {self.log}:\n{self.log.read_text()[-2000:]}"
        try:
            return bool(await to_thread.run_sync(self._get, "/readyz"))
        except OSError:
            return False

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as answer:
            return str(answer.read().decode())


def manager_of(cluster: LocalCluster, directory: Path) -> Role:
    """A manager, reached by the API server at a URL on this machine."""
    port = str(free_ports(1)[0])
    webhook = ("--webhook-port", port, "--webhook-url", f"https://127.0.0.1:{port}")
    return Role("manager", "--kubeconfig", str(cluster.kubeconfig), *webhook, log=directory / "manager.log")


def agent_of(cluster: LocalCluster, node: LocalNode, directory: Path, *, inventory: str = FOUR_A10G) -> Role:
    """The agent of a node, with simulated cards, which have no driver to enforce a slice with."""
    file = directory / "inventory.yaml"
    file.write_text(inventory)
    return Role(
        *("node-agent", "--kubeconfig", str(cluster.kubeconfig), "--node-name", node.name),
        *("--detector", "simulated", "--inventory", str(file), "--kubelet-dir", str(node.kubelet_dir)),
        *("--state-dir", str(directory / "state")),
        log=directory / "agent.log",
        env={"GPUSTACK_NVIDIA_SLICE_ISOLATION": "off"},
    )
