"""The story as one JSON document: what `demo --output json` prints."""

from dataclasses import dataclass, field
from typing import Any

from gpustack_ctl.demo.pods import Cast
from gpustack_ctl.demo.story import Outcome
from gpustack_ctl.demo.timeline import PodRecord, Seen, Timeline
from gpustack_ctl.demo.verdict import Finding
from gpustack_ctl.demo.waiting import StepError
from gpustack_ctl.explain import cards_of_pod
from gpustack_ctl.kube.objects import Obj


@dataclass(slots=True)
class Told:
    """What there is to report, filled as the story goes, so that a failure reports all that came before it."""

    logs: str = ""
    cast: Cast | None = None
    timeline: Timeline | None = None
    outcome: Outcome | None = None
    cards: list[Obj] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    failure: StepError | None = None
    seconds: float = 0.0

    @property
    def happened(self) -> bool:
        """The whole story happened: every claim was judged, and holds."""
        return self.failure is None and bool(self.findings) and all(finding.holds for finding in self.findings)


def document(told: Told) -> dict[str, Any]:
    """The document of `demo --output json`; a story that failed keeps all that was seen until then."""
    records = told.timeline.records if told.timeline else {}
    endings = told.outcome.endings if told.outcome else {}
    written: dict[str, Any] = {
        "ok": told.happened,
        "seconds": round(told.seconds, 3),
        "pods": [
            _pod(records[role.name], env=endings[role.name].env if role.name in endings else {})
            for role in told.cast or ()
            if role.name in records
        ],
        "cards": [_card(row) for row in told.cards],
        "releaseToAdmittedSeconds": told.outcome.release_to_admitted if told.outcome else None,
        "findings": [{"claim": found.claim, "holds": found.holds, "saw": found.saw} for found in told.findings],
    }
    if told.failure is not None:
        written["failure"] = {"step": told.failure.step, "saw": told.failure.saw, "logs": told.logs}
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
