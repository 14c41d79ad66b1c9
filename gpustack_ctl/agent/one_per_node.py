"""One agent per node: two would promise the same cards from two journals.

The lock is the kernel's, on a file in the state directory, so it ends with the process however that ends. The file
says who holds it, for the one who comes second.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AgentRunningError(Exception):
    """Another agent has this node's state directory."""


@contextmanager
def only_agent(state_dir: Path) -> Iterator[None]:
    """Hold the node for this process. Raises AgentRunningError, naming the other one's pid; OSError as it comes."""
    state_dir.mkdir(parents=True, exist_ok=True)
    path = state_dir / "node-agent.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            raise AgentRunningError(
                f"another node agent, pid {holder}, holds {state_dir}; stop it first, or give this one its own "
                "--state-dir and --node-name"
            ) from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(handle)
