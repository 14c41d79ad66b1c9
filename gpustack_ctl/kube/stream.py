"""A watch's body, cut into events.

The server writes one JSON document per line and flushes when it likes: a chunk may hold a hundred events or a
tenth of one. Lines have no length limit here, because one object may be 1.5 MiB; that is also why aiohttp's
own line reader, which has one, is not used.
"""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import orjson

from gpustack_ctl.kube.errors import KubeError


class BrokenStreamError(KubeError):
    """A complete line was not an event; the stream cannot be trusted from here on."""


class Frame(NamedTuple):
    """One event: ADDED, MODIFIED, DELETED or BOOKMARK with its object, or ERROR with a Status."""

    kind: str
    object: dict[str, Any]


async def frames(chunks: AsyncIterator[bytes]) -> AsyncIterator[Frame]:
    """The events in `chunks`, in order. A line that the stream's end cuts short was never an event and is dropped."""
    async for line in _lines(chunks):
        yield _frame(line)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    parts: list[bytes] = []  # of a line still incomplete; joined once, so that a long line costs no quadratic copying
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        parts.append(first)
        if not others:
            continue
        *whole, rest = others
        for line in (b"".join(parts), *whole):
            if line:
                yield line
        parts = [rest] if rest else []


def _frame(line: bytes) -> Frame:
    try:
        event = orjson.loads(line)
        return Frame(event["type"], event["object"])
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise BrokenStreamError(f"the watch sent what is no event ({error}): {line[:200]!r}") from error
