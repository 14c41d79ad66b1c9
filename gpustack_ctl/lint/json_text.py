"""JSON documents with their lines: one value after another, as `jq` and `kubectl get -o json` write them.

The standard library's decoder tells no positions, but it tells where a value ends, so a List is walked once more to
find where its items begin.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left

from gpustack_ctl.lint.document import BadTextError, Document

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_SPACE_OR_COMMA = re.compile(r"[ \t\r\n,]*")


def documents(text: str) -> list[Document]:
    """Raises BadTextError."""
    try:
        return _Reader(text).documents()
    except json.JSONDecodeError as error:
        raise BadTextError(error.lineno, f"not valid JSON: {error.msg}") from error
    except ValueError as error:  # a number of thousands of digits
        raise BadTextError(1, f"not a manifest: {error}") from error


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._newlines = [match.start() for match in re.finditer("\n", text)]

    def documents(self) -> list[Document]:
        found = []
        at = self._past(_SPACE, 0)
        while at < len(self._text):
            value, end = _DECODER.raw_decode(self._text, at)
            listed = isinstance(value, dict) and isinstance(value.get("items"), list)
            found.append(Document(self._line(at), value, self._item_lines(at) if listed else ()))
            at = self._past(_SPACE, end)
        return found

    def _item_lines(self, at: int) -> tuple[int, ...]:
        """Of the valid object that begins at `at`, whose last `items` is a list."""
        lines: list[int] = []
        at = self._past(_SPACE, at + 1)
        while self._text[at] != "}":
            key, at = _DECODER.raw_decode(self._text, at)
            at = self._past(_SPACE, self._past(_SPACE, at) + 1)  # the colon stands between
            if key == "items":
                lines = self._element_lines(at)
            _, at = _DECODER.raw_decode(self._text, at)
            at = self._past(_SPACE_OR_COMMA, at)
        return tuple(lines)

    def _element_lines(self, at: int) -> list[int]:
        lines: list[int] = []
        if self._text[at] != "[":
            return lines
        at = self._past(_SPACE, at + 1)
        while self._text[at] != "]":
            lines.append(self._line(at))
            _, at = _DECODER.raw_decode(self._text, at)
            at = self._past(_SPACE_OR_COMMA, at)
        return lines

    def _past(self, skipped: re.Pattern[str], at: int) -> int:
        match = skipped.match(self._text, at)
        return match.end() if match else at

    def _line(self, at: int) -> int:
        return bisect_left(self._newlines, at) + 1
