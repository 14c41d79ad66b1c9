"""Programs by pid: started so that Ctrl-C is not for them, and ended so that nobody else is hit.

A run is often ended by another process than the one that started it, so a program is known by its pid together with
the time the kernel started it: a pid alone may since have been given to a stranger.
"""

import contextlib
import os
import random
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from gpustack_ctl.localcluster.errors import LocalClusterError

_STATE, _THREADS, _START_TIME = 0, 17, 19  # fields of /proc/PID/stat, counted after the command's closing parenthesis
_BELOW_EPHEMERAL = (20_000, 32_000)


@dataclass(frozen=True, slots=True)
class Pid:
    """A process that cannot be mistaken for a later one."""

    number: int
    started: int
    front: "Pid | None" = None
    """The process that waits for this one and ends after it, if one does."""

    @property
    def alive(self) -> bool:
        _reap(self.number)
        return _started(self.number) == self.started or (self.front is not None and self.front.alive)

    def signal(self, number: signal.Signals) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.number, number)


def spawn(argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> Pid:
    """Start a program in a session of its own, for Ctrl-C in our terminal is not for it; ``log`` takes its output."""
    log.parent.mkdir(parents=True, exist_ok=True)
    output = (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    silence = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    actions = [silence, output, (os.POSIX_SPAWN_DUP2, 1, 2)]
    try:
        number = os.posix_spawnp(argv[0], tuple(argv), {**os.environ, **(env or {})}, file_actions=actions, setsid=True)
    except OSError as error:
        raise LocalClusterError(f"cannot start {argv[0]}: {error.strerror}") from error
    return Pid(number, _started(number) or 0)


async def only_child(front: Pid) -> Pid:
    """The process behind one that forks once and waits; the one in front while there is none."""
    with anyio.move_on_after(5):
        while front.alive:
            if (number := _first_child(front.number)) is not None:
                return Pid(number, _started(number) or 0, front)
            await anyio.sleep(0.01)
    return front


async def gone(pid: Pid) -> None:
    while pid.alive:  # noqa: ASYNC110 (the kernel announces the end of somebody else's child to nobody)
        await anyio.sleep(0.02)


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, below the range that outgoing connections draw from: a program that is killed and
    started again must find its port still free."""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = random.randint(*_BELOW_EPHEMERAL)  # noqa: S311 (a port, not a secret)
            candidate = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                candidate.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


def tail(log: Path, lines: int = 12) -> str:
    """The end of a log, for a message."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        return "(nothing was logged)"
    return "\n".join(f"  {line[:300]}" for line in text.splitlines()[-lines:]) or "(nothing was logged)"


def _started(number: int) -> int | None:
    """Clock ticks after boot at which a process started; None when it is no more.

    A zombie is no more, but only with its last thread: until then a killed program holds on to its ports.
    """
    try:
        stat = Path(f"/proc/{number}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    dead = fields[_STATE] in "ZX" and int(fields[_THREADS]) <= 1
    return None if dead else int(fields[_START_TIME])


def _first_child(number: int) -> int | None:
    try:
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(children[0]) if children else None


def _reap(number: int) -> None:
    """Let the kernel forget a child of ours that has ended; another's child is not ours to wait for."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(number, os.WNOHANG)
