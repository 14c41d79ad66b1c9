"""The story on a terminal: each Pod's way through the gates, and the cards filling.

On a terminal the picture is redrawn in place; anywhere else each answer is one line as it comes, so that a log tells
the same story. Both write to stderr: stdout is for the JSON document.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.units import M
from gpustack_ctl.demo.pods import Cast, Role
from gpustack_ctl.demo.report import Told
from gpustack_ctl.demo.timeline import PodRecord, Timeline
from gpustack_ctl.explain import GATES
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.localcluster.progress import Terminal

_MARKS = {"passed": ("✓", "green"), "held": ("⏸", "yellow"), "refused": ("✗", "red")}
_BAR = 20
_LOG_WIDTH = 160


class Screen:
    """What the person in front of it sees. `step` says what happens now; the rest is read from the timeline."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        if not self.console.is_terminal:
            self.console.width = _LOG_WIDTH
        self.progress = Terminal(self.console)
        self._started = time.monotonic()
        self._step = ""
        self._timeline: Timeline | None = None
        self._cast: Cast | None = None
        self._cards: Callable[[], Sequence[Obj]] = tuple
        self._printed: dict[str, int] = {}
        self._live: Live | None = None

    def step(self, text: str) -> None:
        """Say what happens now."""
        self._step = text
        if self._live is None:
            self.console.print(f"[dim]{self._clock()}[/] {text}")

    @contextmanager
    def show(self, timeline: Timeline, cast: Cast, cards: Callable[[], Sequence[Obj]]) -> Iterator[None]:
        """Draw the story while the block runs."""
        self._timeline, self._cast, self._cards = timeline, cast, cards
        if not self.console.is_terminal:
            yield
            return
        with Live(get_renderable=self._picture, console=self.console, refresh_per_second=8) as self._live:
            yield
        self._live = None

    def changed(self) -> None:
        """An answer came: a line for it, where there is no live picture to show it in."""
        if self._live is not None or self._timeline is None:
            return
        for record in self._timeline.records.values():
            for seen in record.seen[self._printed.get(record.name, 0) :]:
                mark, colour = _MARKS[seen.answer.answered]
                self.console.print(
                    f"[dim]{self._clock()}[/] {record.name:8} gate {seen.answer.gate} {seen.answer.name:22} "
                    f"[{colour}]{mark} {seen.answer.answered}[/] {seen.answer.message or seen.answer.saw}"
                )
            self._printed[record.name] = len(record.seen)

    def conclude(self, told: Told) -> None:
        """The verdict, claim by claim, under the picture as it stood at the end."""
        if not self.console.is_terminal and self._timeline is not None:
            self.console.print(self._picture())
        for found in told.findings:
            mark, colour = _MARKS["passed" if found.holds else "refused"]
            self.console.print(f"[{colour}]{mark}[/] {found.claim}" + ("" if found.holds else f": {found.saw}"))
        if told.failure is not None:
            self.console.print(f"[red]✗[/] {told.failure.step}\n  {told.failure.saw}\n  logs: {told.logs}")
        if told.outcome is not None:
            self.console.print(f"whole deleted → late admitted: {told.outcome.release_to_admitted:.1f} s")
        self.console.print(f"{told.seconds:.1f} s in all")

    def _clock(self) -> str:
        return f"{time.monotonic() - self._started:6.1f}"

    def _picture(self) -> RenderableType:
        if self._timeline is None or self._cast is None:
            return Text(self._step)
        pods = Table(title="five gates", title_justify="left", expand=True)
        for heading in ("Pod", "asks", *(f"{gate} {name}" for gate, name in GATES.items()), "phase"):
            pods.add_column(heading, overflow="fold")
        for role in self._cast:
            pods.add_row(*self._row(role))
        return Group(pods, self._bars(), *self._notes(), Text(f"{self._clock()} {self._step}", style="dim"))

    def _row(self, role: Role) -> list[RenderableType]:
        asks = " ".join(f"{key.rpartition('/')[2]}={value}" for key, value in role.asks.items())
        record = self._timeline.records.get(role.name) if self._timeline else None
        if record is None:
            return [role.name, Text(asks, style="dim"), *[""] * len(GATES), ""]
        return [role.name, asks, *(_gate(record, gate) for gate in GATES), record.phase]

    def _bars(self) -> Table:
        cards = Table(title="cards", title_justify="left", show_header=False, box=None)
        for row in self._cards():
            share = min(int(row.get("allocated", 0)) / M, 1)
            filled = round(share * _BAR)
            bar = Text("█" * filled, style="cyan") + Text("░" * (_BAR - filled), style="dim")
            mode = Mode(int(row.get("mode", 0))).name.lower()
            cards.add_row(str(row["id"]), bar, f"{share:4.0%}", "free" if mode == "none" else mode)
        return cards

    def _notes(self) -> Iterator[Text]:
        """The newest words of every gate that did not simply let a Pod pass."""
        for record in self._timeline.records.values() if self._timeline else ():
            for seen in record.seen:
                if seen.answer.answered != "passed":
                    yield Text(f"{record.name}, gate {seen.answer.gate}: {seen.answer.message}", style="yellow")


def _gate(record: PodRecord, gate: int) -> Text:
    cell = Text()
    for seen in record.seen:
        if seen.answer.gate == gate:
            mark, colour = _MARKS[seen.answer.answered]
            cell.append(f"{mark} {seen.seconds:.1f}s ", style=colour)
    return cell
