"""The tables show what the picture holds, and of a large fleet no more than somebody reads."""

from rich.console import Console

from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.units import M
from gpustack_ctl.top.picture import CardRow, NodeRow, PendingRow, Picture, PoolRow
from gpustack_ctl.top.tables import tables


def printed(picture: Picture) -> str:
    console = Console(width=200, force_terminal=False)
    with console.capture() as captured:
        console.print(tables(picture))
    return captured.get()


def card(index: int = 0, mode: Mode = Mode.NONE, allocated: int = 0, **changes: object) -> CardRow:
    fields = {"slices": 0, "profiles": {}, "unhealthy": False, "pods": ()} | changes
    return CardRow(f"GPU-{index}", index, "nvidia-a10g", mode, allocated, M - allocated, **fields)  # type: ignore[arg-type]


def line(text: str, word: str) -> str:
    return next(each for each in text.splitlines() if word in each)


def test_a_card_shows_how_far_it_is_taken_how_and_by_whom() -> None:
    cards = (
        card(0),
        card(1, Mode.SLICED, M // 4, slices=2, pods=("team/a", "team/b")),
        card(2, Mode.PARTITIONED, M // 2, profiles={"3g.40gb": 1}),
        card(3, unhealthy=True),
    )
    shown = printed(Picture(nodes=(NodeRow("gpu-1", cards),)))
    assert line(shown, "GPU-0").split() == ["gpu-1", "0", "GPU-0", "nvidia-a10g", "░░░░░░░░░░", "0%", "free"]
    assert line(shown, "GPU-1").split()[3:] == ["███░░░░░░░", "25%", "sliced", "×2", "team/a", "team/b"]
    assert line(shown, "GPU-2").split()[3:] == ["█████░░░░░", "50%", "partitioned", "1×3g.40gb"]
    assert line(shown, "GPU-3").split()[-1] == "unhealthy"


def test_a_pool_shows_the_columns_that_kubectl_shows() -> None:
    pool = PoolRow("pool", "entrance", "Active", {}, {"accelerator": "1/1 1/10 100/100 0/0", "cpu": "8/16"})
    assert line(printed(Picture(pools=(pool,))), "Active").split() == [
        "pool", "Active", "1/1", "1/10", "100/100", "0/0", "8/16",
    ]  # fmt: skip


def test_the_pending_table_is_there_only_while_somebody_waits() -> None:
    assert "pending" not in printed(Picture())
    waits = PendingRow("team/late", "pool", "2026-01-01T00:00:00Z", "0 free")
    assert "0 free" in line(printed(Picture(pending=(waits,))), "team/late")


def test_of_a_large_fleet_the_rest_is_counted() -> None:
    shown = printed(Picture(nodes=tuple(NodeRow(f"node-{n:03}", (card(n),)) for n in range(100))))
    assert "node-063" in shown and "node-064" not in shown
    assert "and 36 nodes more: --output json has them all" in shown
