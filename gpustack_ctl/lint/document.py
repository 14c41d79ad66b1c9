"""What a text amounts to, whichever notation it is written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Document:
    """A value, its line, and the lines of the elements of its `items`."""

    line: int
    value: Any
    item_lines: tuple[int, ...] = ()


class BadTextError(Exception):
    """A text that cannot be read, and the line where that shows."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
