"""What is told while something takes its time, always on stderr: stdout is for results.

A terminal gets one line that moves; anything else gets a line now and then, so that a log stays readable.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import structlog
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

Advance = Callable[[int, int], None]
"""(done, total)"""

_LINE_EVERY = 15.0


class Progress(Protocol):
    def say(self, message: str) -> None:
        """One thing that happens."""

    def counting(self, what: str) -> AbstractContextManager[Advance]:
        """Something long, counted while the block runs."""


class Quiet:
    """For tests and for callers that draw their own picture: the log keeps a trace."""

    def say(self, message: str) -> None:
        structlog.get_logger().debug(message)

    def counting(self, what: str) -> AbstractContextManager[Advance]:
        self.say(what)
        return nullcontext(lambda _done, _total: None)


class Terminal:
    """For a person: on stderr, a bar where there is a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)

    def say(self, message: str) -> None:
        self._console.print(message, markup=False, soft_wrap=True)

    def counting(self, what: str) -> AbstractContextManager[Advance]:
        return self._bar(what) if self._console.is_terminal else self._lines(what)

    @contextmanager
    def _bar(self, what: str) -> Iterator[Advance]:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Bar(*columns, console=self._console, transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    @contextmanager
    def _lines(self, what: str) -> Iterator[Advance]:
        self.say(what)
        due = time.monotonic() + _LINE_EVERY

        def advance(done: int, total: int) -> None:
            nonlocal due
            if time.monotonic() >= due:
                due = time.monotonic() + _LINE_EVERY
                self.say(f"{what}: {done}/{total}")

        yield advance
