"""The picture as a person reads it: three tables."""

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpustack_ctl.accel.refusals import percent
from gpustack_ctl.accel.units import M
from gpustack_ctl.top.picture import CardRow, Picture

_BAR = 10
_FILE_WIDTH = 200
_MOST = 64
"""Nodes, and Workloads, that a table shows: nobody reads more, and drawing them takes longer than a change lasts."""


def stdout() -> Console:
    """A console on stdout; into a file or a pipe nothing is cut to the width of a terminal that is not there."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    return console


def tables(picture: Picture) -> RenderableType:
    """Pools, cards and who waits; the last only when somebody does. Of a large fleet the first nodes and Workloads."""
    shown: list[RenderableType] = [_pools(picture), _cards(picture), *_more(len(picture.nodes), "nodes")]
    if picture.pending:
        shown += [_pending(picture), *_more(len(picture.pending), "Workloads")]
    return Group(*shown)


def _pools(picture: Picture) -> Table:
    table = _table("pools", "pool", "phase", "EX SH SL PT", "partitions", "CPU")
    for pool in picture.pools:
        printed = pool.printed
        table.add_row(
            pool.name,
            Text(pool.phase, style="green" if pool.phase == "Active" else "yellow"),
            printed.get("accelerator", ""),
            printed.get("partitions", ""),
            printed.get("cpu", ""),
        )
    return table


def _cards(picture: Picture) -> Table:
    table = _table("cards", "node", "card", "model", "held", "taken", "how", "Pods")
    for node in picture.nodes[:_MOST]:
        for at, card in enumerate(node.cards):
            table.add_row(
                node.name if at == 0 else "",
                f"{card.index} {card.id}",
                card.model,
                _bar(card),
                percent(card.allocated),
                _how(card),
                " ".join(card.pods),
            )
    return table


def _pending(picture: Picture) -> Table:
    table = _table("pending", "workload", "queue", "since", "why")
    for each in picture.pending[:_MOST]:
        table.add_row(each.workload, each.queue, each.since, Text(each.message, style="yellow"))
    return table


def _more(count: int, what: str) -> Iterator[Text]:
    if count > _MOST:
        yield Text(f"and {count - _MOST} {what} more: --output json has them all", style="dim")


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _bar(card: CardRow) -> Text:
    filled = -(-card.allocated * _BAR // M)
    return Text("█" * filled, style="cyan") + Text("░" * (_BAR - filled), style="dim")


def _how(card: CardRow) -> Text:
    if card.unhealthy:
        return Text("unhealthy", style="red")
    mode = "free" if card.allocated == 0 and not card.mode else card.mode.name.lower()
    slices = f" ×{card.slices}" if card.slices else ""
    return Text(mode + slices + "".join(f" {count}×{name}" for name, count in sorted(card.profiles.items())))
