"""The journal: promises of cards on the node's own disk, written before the kubelet hears of them.

An allocation record reaches the Pod over the network, later; between the answer to the kubelet and that moment only
this file knows. A line is appended while the node's lock is held, which is all that a killed process needs, and is on
the disk itself before the allocation is answered, which is what a node that loses its power needs. One JSON document
per line; the last may be torn, and is then ignored: its promise was never answered. The file is rewritten whole when
it is opened, and when it has grown past what it says.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio
import orjson
import structlog
from anyio import to_thread

from gpustack_ctl.agent import metrics

log = structlog.get_logger()


class JournalError(Exception):
    """The journal cannot be written: nothing may be promised until it can be again."""


class Journal:
    """An append-only file of JSON documents. One writer at a time; the caller holds the node's lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: io.FileIO | None = None
        self._end = 0
        self._writing = anyio.Lock()

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._end

    def read(self) -> list[dict[str, Any]]:
        """Every whole document, in order; none when there is no file yet."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return []
        documents = []
        for number, line in enumerate(data.splitlines(keepends=True), start=1):
            document = _document(line)
            if document is None:
                log.warning("journal line not readable, ignored", path=str(self._path), line=number)
            else:
                documents.append(document)
        return documents

    def append(self, document: Mapping[str, Any]) -> None:
        """Add one document. Raises JournalError, and the file is then as it was."""
        data = orjson.dumps(document) + b"\n"
        try:
            self._append(data)
        except OSError as error:
            raise self._failed(error) from error

    async def flush(self) -> None:
        """Return once everything appended so far is on the disk. Raises JournalError.

        It waits in a thread: a disk that stalls must not stall the watches and the other plugin servers.
        """
        async with self._writing:
            if self._file is None:
                return  # rewritten since, and on the disk already
            with metrics.journal_seconds.time():
                await self._run(os.fdatasync, self._file.fileno())

    async def rewrite(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Replace the file's content in one step. Raises JournalError, and the file is then as it was."""
        data = b"".join(orjson.dumps(document) + b"\n" for document in documents)
        async with self._writing:
            await self._run(self._rewrite, data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    async def _run(self, work: Callable[[Any], None], argument: object) -> None:
        try:
            await to_thread.run_sync(work, argument)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> JournalError:
        return JournalError(f"{self._path} cannot be written: {error.strerror}")

    def _append(self, data: bytes) -> None:
        if self._file is None:
            self._file = self._path.open("ab", buffering=0)
            self._end = self._file.tell()
        written = 0
        try:
            while written < len(data):
                written += self._file.write(data[written:])
        except OSError:
            # Half a line left behind would swallow the next one.
            os.ftruncate(self._file.fileno(), self._end)
            raise
        self._end += len(data)

    def _rewrite(self, data: bytes) -> None:
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        _sync_directory(self._path.parent)
        self.close()
        self._end = len(data)


def _document(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _sync_directory(directory: Path) -> None:
    """Make a rename outlive a power cut."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
