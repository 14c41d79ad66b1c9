"""One agent per node: two would promise the same cards from two journals.

The lock is the kernel's, on a file in each directory that an agent must have for itself: the state, and the kubelet's
plugin sockets. So it ends with the process however that ends, and the file says who holds it for the one who is second.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from gpustack_ctl.agent.config import BadConfigError


class AgentRunningError(Exception):
    """Another agent has this node."""


@contextmanager
def only_agent(*directories: Path) -> Iterator[None]:
    """Hold the directories for this process.

    Raises AgentRunningError, naming the other's pid; BadConfigError for a directory that cannot be written.
    """
    with ExitStack() as held:
        for directory in directories:
            held.enter_context(_locked(directory))
        yield


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    with ExitStack() as opened:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            file = opened.enter_context(
                (directory / "gpustack-node-agent.lock").open("a+", encoding="ascii", errors="replace")
            )
            _take(file, directory)
        except OSError as error:
            raise BadConfigError(
                f"{directory} cannot be written: {error.strerror}; the agent needs it for itself"
            ) from error
        yield


def _take(file: TextIO, directory: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read(32).strip() or "unknown"
        raise AgentRunningError(f"another node agent, pid {holder}, holds {directory}; stop it first") from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
