"""Directories of this machine that a node mounts over in its own namespace: made when missing, gone with the last node.

Removing a directory that is a mount point in another namespace takes the mount away there, and with it the other
node's kubelet. So every node holds a shared lock on /var/lib for as long as it lives, and only who gets an exclusive
one removes anything.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

GUARD = Path("/var/lib")


@contextlib.contextmanager
def made(paths: Iterable[Path]) -> Iterator[list[str]]:
    """Make what is missing, and name what is to be removed in the end, deepest first.

    Nobody removes any of it while the block runs; a node takes a lock of its own before the block ends.
    """
    with _open() as guard:
        alone = _locked(guard)
        fcntl.flock(guard, fcntl.LOCK_SH)
        yield [name for path in paths for name in _made(path, alone=alone)]


def _made(path: Path, *, alone: bool) -> list[str]:
    missing = [str(one) for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    if missing or alone or any(path.iterdir()):
        return missing
    return [str(path)]  # empty beside other nodes: made by one of them, and the last to leave removes it


def remove(paths: Iterable[str]) -> None:
    """Remove directories if they are empty and no node is left that could be using them."""
    with _open() as guard:
        if not _locked(guard):
            return
        for path in paths:
            with contextlib.suppress(OSError):
                Path(path).rmdir()


def _locked(guard: int) -> bool:
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _open() -> Iterator[int]:
    guard = os.open(GUARD, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield guard
    finally:
        os.close(guard)
