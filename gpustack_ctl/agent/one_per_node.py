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


class AgentRunningError(Exception):
    """Another agent has this node."""


@contextmanager
def only_agent(*directories: Path) -> Iterator[None]:
    """Hold the directories for this process. Raises AgentRunningError, naming the other's pid; OSError as it comes."""
    with ExitStack() as held:
        for directory in directories:
            held.enter_context(_locked(directory))
        yield


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory / "gpustack-node-agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            raise AgentRunningError(f"another node agent, pid {holder}, holds {directory}; stop it first") from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(handle)
