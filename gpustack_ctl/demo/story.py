"""The story: send the Pods one after the other, and read everything back.

Two halves share a card, a share takes two others, a whole card takes the last. Then a latecomer wants half a card: the
pool's credits suffice, the node's totals suffice, and yet no card has room. Gate 3 holds it until the whole card is let
go. And a request that makes no sense is refused at the door.
"""

import time
from dataclasses import dataclass

import anyio

from gpustack_ctl.controllers.quotas import quotas_of
from gpustack_ctl.demo.pods import Cast, Role
from gpustack_ctl.demo.stage import Stage
from gpustack_ctl.demo.timeline import PodRecord, Timeline
from gpustack_ctl.demo.waiting import until
from gpustack_ctl.explain import cards_of_pod, refused_at_creation
from gpustack_ctl.kube.errors import Invalid
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import CLUSTER_QUEUES, PODS

_RUNS, _HELD, _RELEASED, _PRINTS = 40, 20, 60, 10
"""Seconds until a Pod must run, be held, be released, have printed: so far above what is usual that only a fault
reaches them."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What was read back of one Pod at the end of its part."""

    record: PodRecord
    cards: list[str]
    env: dict[str, str]


@dataclass(frozen=True, slots=True)
class Left:
    """What was left while late was held, in units: of the pool's credits, and of the node's cards summed up."""

    credits: int
    cards: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The whole story, read back."""

    endings: dict[str, Ending]
    left: Left
    cards: list[Obj]
    release_to_admitted: float


async def tell(stage: Stage, cast: Cast, timeline: Timeline) -> Outcome:
    """Play every part in order; raises StepError at the first that does not come true."""
    endings: dict[str, Ending] = {}
    halves = [await _enter(stage, timeline, role) for role in (cast.half_a, cast.half_b)]
    for half in halves:
        endings[half.name] = await _runs(stage, half)
    for role in (cast.share, cast.whole):
        endings[role.name] = await _runs(stage, await _enter(stage, timeline, role))

    late = await _enter(stage, timeline, cast.late)
    await until("gate 3 holds late", lambda: late.answered(3, "held"), seconds=_HELD, saw=lambda: _where(late))
    left = await _left(stage)
    await _is_refused(stage, timeline, cast.wrong)
    endings[cast.wrong.name] = Ending(timeline.records[cast.wrong.name], [], {})

    released = time.monotonic()
    await stage.kube.delete(PODS, cast.whole.name, stage.namespace)
    admitted = await until(
        "late is admitted once whole is gone",
        lambda: late.answered(3, "passed"),
        seconds=_RELEASED,
        saw=lambda: _where(late),
    )
    endings[late.name] = await _runs(stage, late)
    await until("the ledger shows late", lambda: _ledger_shows(stage, endings[late.name]), seconds=10)
    return Outcome(endings, left, stage.cards, round(late.created + admitted.seconds - released, 3))


async def _enter(stage: Stage, timeline: Timeline, role: Role) -> PodRecord:
    record = timeline.follow(role.name)
    manifest = role.manifest(namespace=stage.namespace, queue=stage.queue, image=stage.image)
    await stage.kube.create(PODS, manifest)
    return record


async def _is_refused(stage: Stage, timeline: Timeline, role: Role) -> None:
    try:
        await _enter(stage, timeline, role)
    except Invalid as refusal:
        record = timeline.records[role.name]
        record.phase = "Refused"
        timeline.note(record, refused_at_creation(role.asks, refusal.message))


async def _runs(stage: Stage, record: PodRecord) -> Ending:
    await until(
        f"{record.name} runs",
        lambda: record.phase == "Running" and record.answered(5, "passed") is not None,
        seconds=_RUNS,
        saw=lambda: _where(record),
    )
    cards = cards_of_pod(record.pod) if record.pod else []
    return Ending(record, cards, await _environment(stage, record.name))


async def _environment(stage: Stage, pod: str) -> dict[str, str]:
    """The container's own environment, as it printed it when it started."""
    log = b""
    with anyio.move_on_after(_PRINTS):
        while not (log := await stage.kube.raw(f"/api/v1/namespaces/{stage.namespace}/pods/{pod}/log")):  # noqa: ASYNC110
            await anyio.sleep(0.1)
    lines = (line.partition("=") for line in log.decode(errors="replace").splitlines())
    return {name: value for name, sign, value in lines if sign and not name.startswith("KUBERNETES_")}


async def _left(stage: Stage) -> Left:
    """Every sum that one could go by, and by which late would fit."""
    queue = await stage.kube.get(CLUSTER_QUEUES, stage.pool)
    credits_ = sum(quota.left for quota in quotas_of(queue) if stage.table.of_credits(quota.resource))
    return Left(credits=credits_, cards=sum(int(row.get("remaining", 0)) for row in stage.cards))


def _ledger_shows(stage: Stage, ending: Ending) -> bool:
    held = {row["id"] for row in stage.cards if row.get("allocated")}
    return set(ending.cards) <= held


def _where(record: PodRecord) -> str:
    """Where a Pod stands, for the message of a step that failed."""
    if not record.latest:
        return f"{record.name} is {record.phase}, and no gate has answered"
    gate = record.stands_at
    if gate is None:
        return f"{record.name} is {record.phase}; every gate let it pass"
    return f"{record.name} is {record.phase}; gate {gate.gate}, {gate.name}, {gate.answered}: {gate.message}"
