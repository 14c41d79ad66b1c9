"""One run of a cluster: its directory, and the record of every program that was started in it.

The record is on disk before a program can be forgotten: whoever comes next (`local down`, a second `local up`, a test
that was killed) ends exactly what this run started, and nothing else.
"""

import contextlib
import fcntl
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gpustack_ctl.localcluster import mountpoints
from gpustack_ctl.localcluster.cgroups import remove_container_cgroups
from gpustack_ctl.localcluster.errors import LocalClusterError
from gpustack_ctl.localcluster.health import Health
from gpustack_ctl.localcluster.pki import Authority
from gpustack_ctl.localcluster.polling import until
from gpustack_ctl.localcluster.processes import Pid, gone, only_child, spawn, tail

NODE_PREFIX = "node-"
"""Of the directory that holds everything of one node."""

_OURS = {"pki", "users", "etcd", "config", "kueue-etc", "kubeconfig", "run.json", "run.draft"}
"""What else a run puts into its directory, logs left out: they stay."""

_DIES_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")

_LONGEST_DIRECTORY = 60
"""A Unix socket's path holds 107 bytes, and the kubelet's sockets lie some 45 below the run directory."""


@dataclass(frozen=True, slots=True)
class Program:
    """How to start a program, and the URL that answers once it is ready (see `Health.answers`).

    ``forks``: the command enters a PID namespace and stays in front; the program itself is its only child.
    """

    name: str
    argv: tuple[str, ...]
    probe: str
    env: Mapping[str, str] = field(default_factory=dict)
    forks: bool = False


@dataclass(slots=True)
class Run:
    """The run in ``directory``."""

    directory: Path
    server: str = ""
    die_with_parent: bool = False
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further flags for a program, by its name without its node."""
    programs: dict[str, Program] = field(default_factory=dict)
    pids: dict[str, Pid] = field(default_factory=dict)
    leftovers: list[str] = field(default_factory=list)
    """Directories outside the run that go with it, deepest first, if they are empty."""
    complete: bool = False
    """Whether everything that was to start has been ready: an `up` may have been killed on its way."""

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def authority(self) -> Authority:
        return Authority(self.directory / "pki")

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    def log(self, program: str) -> Path:
        return self.logs / f"{program}.log"

    @property
    def whole(self) -> bool:
        return self.complete and all(pid.alive for pid in self.pids.values())

    async def start(self, program: Program, *, seconds: float = 60) -> None:
        """Start a program and return once it is ready."""
        tether = _DIES_WITH_PARENT if self.die_with_parent else ()
        argv = (*tether, *program.argv, *self.flags.get(program.name.partition("@")[0], ()))
        pid = spawn(argv, log=self.log(program.name), env=program.env)
        self._record(program, pid)
        if program.forks:
            self._record(program, await only_child(pid))
        await self._ready(program.name, seconds=seconds)

    def _record(self, program: Program, pid: Pid) -> None:
        self.programs[program.name] = program
        self.pids[program.name] = pid
        self.save()

    def leaves(self, directories: list[str]) -> None:
        """Directories outside the run that go with it."""
        self.leftovers += directories
        self.save()

    async def _ready(self, name: str, *, seconds: float) -> None:
        """Return once a started program answers; it may also end, or take too long."""
        pid, probe = self.pids[name], self.programs[name].probe
        async with Health(self.authority) as health:

            async def answers() -> bool:
                if not pid.alive:
                    raise LocalClusterError(f"{name} ended while it was starting:\n{tail(self.log(name))}")
                return await health.answers(probe)

            if not await until(answers, seconds=seconds):
                raise LocalClusterError(f"{name} is not ready after {seconds:.0f} s:\n{tail(self.log(name))}")

    async def kill(self, name: str) -> None:
        """SIGKILL, as a fault would have it."""
        pid = self.pids[self.program(name).name]
        pid.signal(signal.SIGKILL)
        await gone(pid)

    def program(self, name: str) -> Program:
        if name not in self.programs:
            raise LocalClusterError(f"no program {name!r} here", f"There are: {', '.join(sorted(self.programs))}.")
        return self.programs[name]

    async def end(self) -> None:
        """End every program and remove everything but the logs. Their data goes too, so nobody is owed a goodbye."""
        for pid in self.pids.values():
            pid.signal(signal.SIGKILL)
        for pid in self.pids.values():
            await gone(pid)
        for node in self.directory.glob(f"{NODE_PREFIX}*"):
            await remove_container_cgroups(node / "containerd")
        if self.leftovers:
            mountpoints.remove(self.leftovers)
        remove(self.directory)

    def save(self) -> None:
        record = {
            "server": self.server,
            "die_with_parent": self.die_with_parent,
            "leftovers": self.leftovers,
            "complete": self.complete,
            "programs": [
                {
                    "name": program.name,
                    "argv": list(program.argv),
                    "probe": program.probe,
                    "env": dict(program.env),
                    "forks": program.forks,
                    "pid": self.pids[name].number,
                    "started": self.pids[name].started,
                }
                for name, program in self.programs.items()
            ],
        }
        draft = _file(self.directory).with_suffix(".draft")
        draft.write_bytes(orjson.dumps(record, option=orjson.OPT_INDENT_2))
        draft.replace(_file(self.directory))

    @classmethod
    def load(cls, directory: Path) -> "Run | None":
        """The run recorded in a directory, alive or dead."""
        try:
            record: dict[str, Any] = orjson.loads(_file(directory).read_bytes())
        except FileNotFoundError:
            return None
        programs = record["programs"]
        return cls(
            directory,
            server=record["server"],
            die_with_parent=record["die_with_parent"],
            leftovers=record["leftovers"],
            complete=record["complete"],
            programs={p["name"]: _program(p) for p in programs},
            pids={p["name"]: Pid(p["pid"], p["started"]) for p in programs},
        )


def _program(record: dict[str, Any]) -> Program:
    argv = tuple(record["argv"])
    return Program(record["name"], argv, record["probe"], record["env"], forks=record["forks"])


@contextlib.contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """One `up` or `down` at a time in a directory."""
    if len(os.fsencode(directory)) > _LONGEST_DIRECTORY:
        raise LocalClusterError(
            f"the run directory's path is too long for the sockets below it: {directory}",
            f"Choose one of at most {_LONGEST_DIRECTORY} bytes with --dir.",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("w")
    except OSError as error:
        raise LocalClusterError(
            f"cannot write to the run directory {directory}: {error.strerror}", "Choose another with --dir."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LocalClusterError(
                f"another `local up` or `local down` is at work in {directory}", "Wait for it to finish."
            ) from error
        yield


def remove(directory: Path) -> None:
    """Remove what runs put into a directory: never a file that is not ours, wherever --dir points."""
    for path in directory.iterdir():
        if path.name in _OURS or path.name.startswith(NODE_PREFIX):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _file(directory: Path) -> Path:
    return directory / "run.json"
