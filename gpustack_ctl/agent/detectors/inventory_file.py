"""The inventory file of the simulated detector: cards that are not there, and failures to inject.

Read strictly, because the reader is a person at a keyboard: an unknown field is a typing error, and every fault of the
file is reported in one go with its line and with what to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.documents.cards import CardsEntry, read_cards
from gpustack_ctl.documents.marked import Document, DocumentError, Field

#: The driver calls that an inventory may let fail.
CALLS = ("create-gpu-instance", "create-compute-instance", "destroy-gpu-instance")


@dataclass(frozen=True, slots=True)
class CardFailure:
    """A card that turns unhealthy `at` seconds after the start, for a while or for good."""

    card: int
    at: float
    seconds: float | None


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A driver call that fails the next `times` times."""

    call: str
    error: str
    times: int


@dataclass(frozen=True, slots=True)
class InventoryFile:
    """The whole file, understood."""

    cards: tuple[CardsEntry, ...]
    card_failures: tuple[CardFailure, ...] = ()
    call_failures: tuple[CallFailure, ...] = ()


def load_inventory(path: Path, *, table: Manufacturers) -> InventoryFile:
    """Read the file at `path`. Raises DocumentError, and OSError as the system says it."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError([f"{path}:1: not UTF-8 text: {error.reason}"]) from error
    return read_inventory(text, source=str(path), table=table)


def read_inventory(text: str, *, source: str, table: Manufacturers) -> InventoryFile:
    """Read an inventory from text. Raises DocumentError with every fault."""
    document = Document(text, source=source)
    root = document.root.fields("cards", "failures")
    cards = read_cards(root["cards"], table=table)
    total = sum(entry.count for entry in cards)
    failures = root["failures"].items("write a list of failures")
    card_failures, call_failures = [], []
    for failure in failures:
        fields = failure.fields("at", "card", "unhealthy", "for", "call", "error", "times")
        if fields["call"].absent:
            card_failures.append(_card_failure(fields, total))
        else:
            call_failures.append(_call_failure(fields))
    document.check()
    return InventoryFile(cards, tuple(card_failures), tuple(call_failures))


def _card_failure(fields: Mapping[str, Field], total: int) -> CardFailure:
    card = fields["card"]
    if card.absent:
        card.missing("write the index of a card, or call for a failing driver call")
    if not fields["unhealthy"].flag(default=True):
        fields["unhealthy"].wrong("write true; a card recovers by itself after its for seconds")
    for name in ("error", "times"):
        if not fields[name].absent:
            fields[name].wrong("belongs to a failing call; add call, or drop it")
    return CardFailure(
        card=card.integer(0, least=0, most=max(total - 1, 0)),
        at=fields["at"].seconds(0.0) or 0.0,
        seconds=fields["for"].seconds(None),
    )


def _call_failure(fields: Mapping[str, Field]) -> CallFailure:
    call = fields["call"].text()
    if call not in CALLS:
        fields["call"].wrong(f"write one of {', '.join(CALLS)}")
    for name in ("at", "card", "unhealthy", "for"):
        if not fields[name].absent:
            fields[name].wrong("belongs to a failing card; drop call, or drop it")
    return CallFailure(call=call, error=fields["error"].text("failed"), times=fields["times"].integer(1, least=1))
