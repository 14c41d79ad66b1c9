"""The story as one JSON document: what `demo --output json` prints."""

from typing import Any

from gpustack_ctl.demo.pods import Cast
from gpustack_ctl.demo.story import Outcome
from gpustack_ctl.demo.timeline import PodRecord, Seen, Timeline
from gpustack_ctl.demo.verdict import Finding
from gpustack_ctl.demo.waiting import StepFailed
from gpustack_ctl.explain import cards_of_pod
from gpustack_ctl.kube.objects import Obj


def document(
    *,
    seconds: float,
    timeline: Timeline | None,
    cast: Cast | None,
    outcome: Outcome | None,
    cards: list[Obj],
    findings: list[Finding],
    failure: StepFailed | None,
    logs: str,
) -> dict[str, Any]:
    """`ok` only when every claim was judged and holds. A failed story keeps all that was seen until then."""
    records = timeline.records if timeline else {}
    endings = outcome.endings if outcome else {}
    written: dict[str, Any] = {
        "ok": failure is None and bool(findings) and all(finding.holds for finding in findings),
        "seconds": round(seconds, 3),
        "pods": [
            _pod(records[role.name], env=endings[role.name].env if role.name in endings else {})
            for role in cast or ()
            if role.name in records
        ],
        "cards": [_card(row) for row in cards],
        "releaseToAdmittedSeconds": outcome.release_to_admitted if outcome else None,
        "findings": [{"claim": found.claim, "holds": found.holds, "saw": found.saw} for found in findings],
    }
    if failure is not None:
        written["failure"] = {"step": failure.step, "saw": failure.saw, "logs": logs}
    return written


def _pod(record: PodRecord, *, env: dict[str, str]) -> dict[str, Any]:
    return {
        "name": record.name,
        "phase": record.phase,
        "gates": [_gate(seen) for seen in record.seen],
        "cards": cards_of_pod(record.pod) if record.pod else [],
        "env": env,
    }


def _gate(seen: Seen) -> dict[str, Any]:
    answer = seen.answer
    return {
        "gate": answer.gate,
        "name": answer.name,
        "saw": answer.saw,
        "answered": answer.answered,
        "message": answer.message,
        "seconds": seen.seconds,
    }


def _card(row: Obj) -> dict[str, Any]:
    return {
        "id": row["id"],
        "mode": row.get("mode", 0),
        "allocated": row.get("allocated", 0),
        "remaining": row.get("remaining", 0),
    }
