"""A simulation for people: a bar while it runs, and tables of what came of it."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gpustack_ctl.simulate.results import Results, Totals
from gpustack_ctl.simulate.run import Progress as Told

#: More Workloads than these are counted, not listed.
MOST_LISTED = 200


@contextmanager
def progress() -> Iterator[Told]:
    """A bar on stderr while Workloads arrive, and afterwards what the run took; neither where nobody watches."""
    console = Console(stderr=True)
    columns = (TextColumn("Workloads"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    began = time.perf_counter()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("")
        yield lambda done, of: bar.update(task, completed=done, total=of)
    seconds, mebibytes = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    console.print(f"simulated in {seconds:.1f} s with {mebibytes} MiB of memory", highlight=False)


def show(results: Results, console: Console) -> None:
    """Print the Workloads, where there are few enough to read, and the totals."""
    if 0 < len(results.rows) <= MOST_LISTED:
        rows = list(results.rows.documents())
        console.print(_workloads(rows))
        for row in rows:
            if row["message"]:
                console.print(f"{row['workload']}: {row['message']}", markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(f"{len(results.rows):,} Workloads; --output json has a row of each", highlight=False)
    console.print(_totals(results.totals))
    if len(results.totals.points) > 1:
        console.print(_over_time(results.totals))


def _workloads(rows: Iterable[Mapping[str, Any]]) -> Table:
    table = Table("workload", "gate 1", "gate 2", "gate 3", "cards", "admitted", "finished")
    for row in rows:
        table.add_row(
            row["workload"],
            row["gate1"],
            row["gate2"] or "",
            row["gate3"] or "",
            " ".join(row["cards"]),
            _at(row["admittedAt"]),
            _at(row["finishedAt"]),
        )
    return table


def _totals(totals: Totals) -> Table:
    table = Table("admitted", "held", "refused", "utilisation", "fragmentation", "simulated")
    table.add_row(
        f"{totals.admitted:,}",
        f"{totals.held:,}",
        f"{totals.refused:,}",
        f"{totals.utilisation:.1%}",
        f"{totals.fragmentation:.1%}",
        f"{totals.seconds:,.1f} s",
    )
    return table


def _over_time(totals: Totals) -> Table:
    """A line for each stretch of time, as many as a screen has."""
    table = Table("from", "utilisation", "", "fragmentation")
    every = -(-len(totals.points) // _LINES)
    for point in totals.points[::every]:
        bar = "█" * round(point.utilisation * _BAR)
        table.add_row(f"{point.at:,.0f} s", f"{point.utilisation:.1%}", bar.ljust(_BAR), f"{point.fragmentation:.1%}")
    return table


_LINES, _BAR = 24, 40


def _at(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:g} s"
