"""Rows of the benchmark table: `measured(name, ours, unit=…, goal=…)`; printed and written when the run ends."""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from rich.console import Console
from rich.table import Table

OUT = Path("build/bench.json")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `peer` is what somebody else's program did in the same run; `met` is None where there is no goal."""

    part: str
    name: str
    ours: float
    peer: float | None
    unit: str
    goal: float | None
    met: bool | None


Measured = Callable[..., None]

_ROWS = pytest.StashKey[list[Row]]()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Measured:
    """Add a row to the part that the file is named after. Smaller is better, and the goal is the most allowed."""
    part = request.path.stem.removeprefix("bench_").replace("_", "-")

    def add(name: str, ours: float, *, unit: str, goal: float | None = None, peer: float | None = None) -> None:
        row = Row(part, name, ours, peer, unit, goal, None if goal is None else ours <= goal)
        request.config.stash[_ROWS].append(row)

    return add


@pytest.fixture
def milliseconds(benchmark: BenchmarkFixture) -> Callable[..., float]:
    """Times a call: the median over pytest-benchmark's rounds, in milliseconds of processor time."""

    def time(function: Callable[..., object], *arguments: object, **keywords: object) -> float:
        benchmark(function, *arguments, **keywords)
        stats = benchmark.stats
        assert stats is not None
        median: float = stats.stats.median
        return median * 1000

    return time


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_ROWS] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    rows = session.config.stash[_ROWS]
    if not rows:
        return
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_bytes(orjson.dumps([asdict(row) for row in rows], option=orjson.OPT_INDENT_2))
    table = Table("part", "name", "ours", "peer", "ours ÷ peer", "unit", "goal", "met")
    for row in rows:
        table.add_row(row.part, row.name, *_figures(row), row.unit, _figure(row.goal), _met(row))
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    Console(width=160).print("", table, f"{os.cpu_count()} cores, load {load}; written to {OUT}", sep="\n")


def _figures(row: Row) -> tuple[str, str, str]:
    ratio = f"{row.ours / row.peer:.2f}" if row.peer else ""
    return _figure(row.ours), _figure(row.peer), ratio


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _met(row: Row) -> str:
    return "" if row.met is None else "yes" if row.met else "[red]NO[/]"
