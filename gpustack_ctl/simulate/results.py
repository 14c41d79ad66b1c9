"""What a simulation found: a row per Workload, kept in columns because there may be millions, and the totals.

States of a Workload at the end: *refused* by gate 1; *admitted*, which it counts as once it has run at all; *held*, by
gate 2 or 3, when it never ran. Seconds are simulated ones, so that a scenario's document is the same on every machine.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TextIO

import orjson

from gpustack_ctl.simulate.account import Point

Cards = tuple[tuple[str, tuple[str, ...]], ...]
"""The cards of a Workload by node."""

_NEVER = float("nan")


class Rows:
    """The Workloads by number; ``name`` tells what they are called."""

    def __init__(self, workloads: int, name: Callable[[int], str]) -> None:
        self._name = name
        self._admitted = array("d", [_NEVER]) * workloads
        self._finished = array("d", [_NEVER]) * workloads
        self._gate = array("b", [_REFUSED]) * workloads
        self._cards: list[Cards] = [()] * workloads
        self._shared: dict[Cards, Cards] = {}
        self.messages: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._gate)

    def refuse(self, number: int, message: str) -> None:
        """Gate 1 refuses it."""
        self._gate[number] = _REFUSED
        self.messages[number] = message

    def wait(self, number: int, gate: int, message: str) -> None:
        """It waits at gate 2 or 3; one that has run before shows its last run."""
        self._gate[number] = gate
        self.messages[number] = message

    def admit(self, number: int, at: float, cards: Cards) -> None:
        """All gates passed; its cards are these."""
        self._gate[number] = _READY
        self._admitted[number] = at
        self._finished[number] = _NEVER
        self._cards[number] = self._shared.setdefault(cards, cards)

    def finish(self, number: int, at: float) -> None:
        """It ended, or was deleted."""
        self._finished[number] = at

    def ran(self, number: int) -> bool:
        """Whether it was admitted at any time."""
        return self._admitted[number] == self._admitted[number]

    @property
    def admitted(self) -> int:
        return sum(at == at for at in self._admitted)

    @property
    def refused(self) -> int:
        return self._gate.count(_REFUSED)

    def documents(self) -> Iterator[dict[str, Any]]:
        """Every row as the JSON document has it."""
        for number in range(len(self)):
            yield self.document(number)

    def document(self, number: int) -> dict[str, Any]:
        """One row."""
        gate, cards = self._gate[number], self._cards[number]
        return {
            "workload": self._name(number),
            "gate1": "refused" if gate == _REFUSED else "passed",
            "gate2": None if gate == _REFUSED else "waiting" if gate == _AT_GATE_2 else "passed",
            "gate3": {_READY: "Ready", _AT_GATE_3: "Retry"}.get(gate),
            "node": ",".join(node for node, _ in cards) or None,
            "cards": [f"{node}/{card}" for node, held in cards for card in held],
            "message": self.messages.get(number, ""),
            "admittedAt": _seconds(self._admitted[number]),
            "finishedAt": _seconds(self._finished[number]),
        }


_REFUSED, _AT_GATE_2, _AT_GATE_3, _READY = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Totals:
    """The whole simulation in figures; utilisation and fragmentation are averages over its time, 0 to 1."""

    admitted: int
    held: int
    refused: int
    utilisation: float
    fragmentation: float
    seconds: float
    points: Sequence[Point]

    def document(self) -> dict[str, Any]:
        """The totals as the JSON document has them; ``overTime`` averages from each ``at`` to the next."""
        return {
            "admitted": self.admitted,
            "held": self.held,
            "refused": self.refused,
            "utilisation": round(self.utilisation, 6),
            "fragmentation": round(self.fragmentation, 6),
            "seconds": round(self.seconds, 6),
            "overTime": [asdict(point) for point in self.points],
        }


@dataclass(frozen=True, slots=True)
class Results:
    """Rows and totals."""

    rows: Rows
    totals: Totals

    def document(self) -> dict[str, Any]:
        """Everything in one document."""
        return {"workloads": list(self.rows.documents()), "totals": self.totals.document()}

    def write_json(self, out: TextIO) -> None:
        """The same document, written row by row: a million rows are never in memory as objects."""
        out.write('{"workloads":[')
        for number, row in enumerate(self.rows.documents()):
            out.write(",\n" if number else "\n")
            out.write(orjson.dumps(row).decode())
        out.write(f'\n],"totals":{orjson.dumps(self.totals.document()).decode()}}}\n')


def _seconds(value: float) -> float | None:
    return round(value, 6) if value == value else None
