"""The demonstration from curtain to curtain: site, stage, story, verdict."""

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpustack_ctl.demo.pods import Cast, cast_for
from gpustack_ctl.demo.report import document
from gpustack_ctl.demo.screen import Screen
from gpustack_ctl.demo.stage import INVENTORY, Site, Stage, set_up
from gpustack_ctl.demo.story import Outcome, tell
from gpustack_ctl.demo.timeline import Timeline
from gpustack_ctl.demo.verdict import Finding, judge
from gpustack_ctl.demo.waiting import StepFailed

Sites = AbstractAsyncContextManager[Site]


@dataclass(slots=True)
class _Told:
    """What there is to report, filled as the story goes, so that a failure reports all that came before it."""

    timeline: Timeline | None = None
    cast: Cast | None = None
    outcome: Outcome | None = None
    cards: list[dict[str, Any]] | None = None
    findings: list[Finding] | None = None
    failure: StepFailed | None = None
    logs: str = ""


async def play(site: Sites, *, screen: Screen, inventory: Path | None = None, hold: Any = None) -> dict[str, Any]:
    """Tell the story on `site` and return its document; `hold` is awaited at the end, with everything still running."""
    started, told = time.monotonic(), _Told()
    async with site as place:
        told.logs = place.logs
        try:
            async with set_up(place, inventory=inventory or INVENTORY, step=screen.step) as stage:
                await _perform(stage, told, screen)
                seconds = time.monotonic() - started
                screen.conclude(
                    told.findings or [],
                    seconds=seconds,
                    release=told.outcome.release_to_admitted if told.outcome else None,
                )
                if hold is not None:
                    await hold()
        except* StepFailed as failed:
            told.failure = _first(failed)
            screen.console.print(f"[red]✗[/] {told.failure.step}\n  {told.failure.saw}\n  logs: {told.logs}")
            seconds = time.monotonic() - started
    return document(
        seconds=seconds,
        timeline=told.timeline,
        cast=told.cast,
        outcome=told.outcome,
        cards=told.cards or [],
        findings=told.findings or [],
        failure=told.failure,
        logs=told.logs,
    )


async def _perform(stage: Stage, told: _Told, screen: Screen) -> None:
    told.cast = cast_for(stage.manufacturer)
    told.timeline = Timeline(
        pods=stage.pods,
        workloads=stage.workloads,
        table=stage.table,
        clock=time.monotonic,
        changed=screen.changed,
    )
    with screen.show(told.timeline, told.cast, lambda: stage.cards):
        screen.step("sending the Pods")
        try:
            told.outcome = await tell(stage, told.cast, told.timeline)
        finally:
            told.cards = stage.cards
    told.findings = judge(told.outcome, told.cast, node=stage.node, visible_devices=stage.manufacturer.visible_devices)


def _first(failed: BaseExceptionGroup[StepFailed]) -> StepFailed:
    inner = failed.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
