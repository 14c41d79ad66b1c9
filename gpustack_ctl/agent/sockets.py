"""Unix sockets at paths of any length.

The kernel takes 107 bytes for a socket's path, and a kubelet directory under a home or a test directory is soon longer.
Through an open directory the same socket has a short name, for as long as the directory is held open.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LONGEST = 107


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """A path by which the socket at `path` can be bound or reached. Raises OSError when its directory is not there."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
