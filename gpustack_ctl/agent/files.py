"""Files of this node that others read, or that a later process believes: whole or not there, and on the disk."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: str) -> None:
    """Write a file in one step, with the directories that it lies in. Raises OSError, and the file is as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
