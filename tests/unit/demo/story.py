"""The story as it should end, to be spoilt in one place by each test."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.units import SHARE_UNITS, M
from gpustack_ctl.demo.pods import cast_for
from gpustack_ctl.demo.story import Ending, Left, Outcome
from gpustack_ctl.demo.timeline import PodRecord, Seen
from gpustack_ctl.explain import Answer, Answered

CAST = cast_for(manufacturers().by_key["nvidia"])
NODE = "node-1"
VARIABLE = "NVIDIA_VISIBLE_DEVICES"
FIELD = "spec.containers[0].resources.limits[nvidia.com/gpu.sliced]"


def ending(name: str, *cards: str, env: Mapping[str, str] | None = None, seen: tuple[Seen, ...] = ()) -> Ending:
    record = PodRecord(name, created=0.0, phase="Running", seen=list(seen))
    return Ending(record, list(cards), dict(env if env is not None else {VARIABLE: ",".join(cards)}))


def seen(gate: int, answered: Answered, message: str = "", *, seconds: float = 1.0) -> Seen:
    return Seen(Answer(gate, "what it saw", answered, message), seconds)


def row(card: str, mode: int = 0, allocated: int = 0) -> dict[str, Any]:
    return {"id": card, "mode": mode, "allocated": allocated, "remaining": M - allocated}


HELD = seen(3, "held", f"node {NODE}: a slice of 50%, nearest miss 0%", seconds=1.0)
PASSED = seen(3, "passed", "every Pod has its accelerators", seconds=4.0)

AS_TOLD = Outcome(
    endings={
        "half-a": ending("half-a", "GPU-0"),
        "half-b": ending("half-b", "GPU-0"),
        "share": ending("share", "GPU-1", "GPU-2"),
        "whole": ending("whole", "GPU-3"),
        "late": ending("late", "GPU-3", seen=(seen(2, "passed"), HELD, PASSED)),
        "wrong": ending("wrong", env={}, seen=(seen(1, "refused", f"{FIELD}: write 1"),)),
    },
    left=Left(credits=9 * M // 5, cards=9 * M // 5),
    cards=[
        row("GPU-0", 3, M),
        row("GPU-1", 2, SHARE_UNITS),
        row("GPU-2", 2, SHARE_UNITS),
        row("GPU-3", 3, M // 2),
    ],
    release_to_admitted=1.5,
)


def with_ending(**changed: Ending) -> Outcome:
    """The story with other endings, by name with `_` for `-`."""
    return replace(AS_TOLD, endings=AS_TOLD.endings | {name.replace("_", "-"): end for name, end in changed.items()})
