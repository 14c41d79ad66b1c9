"""A watch's body may arrive in any pieces; the events in it are the same."""

from collections.abc import AsyncIterator, Iterable

import orjson
import pytest

from gpustack_ctl.kube.stream import BrokenStreamError, Frame, frames

EVENTS = [
    {"type": "ADDED", "object": {"metadata": {"name": "a", "labels": {"note": "line\nbreak"}}}},
    {"type": "MODIFIED", "object": {"metadata": {"name": "ä", "resourceVersion": "2"}}},
    {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "3"}}},
]
BODY = b"".join(orjson.dumps(event) + b"\n" for event in EVENTS)
EXPECTED = [Frame(event["type"], event["object"]) for event in EVENTS]


async def read(chunks: Iterable[bytes]) -> list[Frame]:
    async def arriving() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return [frame async for frame in frames(arriving())]


@pytest.mark.parametrize("cut", range(len(BODY) + 1))
async def test_events_are_the_same_wherever_a_chunk_ends(cut: int) -> None:
    assert await read([BODY[:cut], BODY[cut:]]) == EXPECTED


async def test_events_are_the_same_byte_by_byte() -> None:
    assert await read(BODY[at : at + 1] for at in range(len(BODY))) == EXPECTED


async def test_many_events_in_one_chunk_come_in_order() -> None:
    assert await read([BODY * 100]) == EXPECTED * 100


@pytest.mark.parametrize("cut", [1, 20, len(BODY) - 1])
async def test_a_line_cut_short_by_the_end_is_no_event(cut: int) -> None:
    whole = BODY[:cut].count(b"\n")
    assert await read([BODY[:cut]]) == EXPECTED[:whole]


async def test_a_line_may_be_as_long_as_an_object_may_be_large() -> None:
    event = {"type": "ADDED", "object": {"metadata": {"name": "large"}, "data": "x" * 3_000_000}}
    line = orjson.dumps(event) + b"\n"
    pieces = [line[at : at + 65_536] for at in range(0, len(line), 65_536)]
    assert await read([*pieces, BODY]) == [Frame("ADDED", event["object"]), *EXPECTED]


async def test_empty_lines_are_passed_over() -> None:
    assert await read([b"\n\n", BODY, b"\n"]) == EXPECTED


@pytest.mark.parametrize("line", [b"{]\n", b"{}\n", b"[]\n", b"null\n", b'{"type": "ADDED"}\n'])
async def test_a_complete_line_that_is_no_event_is_an_error(line: bytes) -> None:
    with pytest.raises(BrokenStreamError):
        await read([BODY, line])
