"""The document: what a story that happened says, and what one that failed keeps."""

from collections.abc import Iterator

import pytest

from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.accel.records import Entry, format_record
from gpustack_ctl.accel.units import M
from gpustack_ctl.demo.report import Told, document
from gpustack_ctl.demo.timeline import PodRecord
from gpustack_ctl.demo.verdict import Finding
from gpustack_ctl.demo.waiting import StepError
from tests.unit.demo.story import AS_TOLD, CAST, HELD, PASSED, row


class Records:
    """As much of a timeline as the document reads."""

    def __init__(self, *records: PodRecord) -> None:
        self.records = {record.name: record for record in records}


def told(**changes: object) -> Told:
    held = {"main": [Entry("a10g", "nvidia", "GPU-3", 3, Mode.SLICED, M // 2)]}
    pod = {"metadata": {"name": "late", "annotations": {ALLOCATED: format_record(held)}}}
    record = PodRecord("late", created=0.0, phase="Running", seen=[HELD, PASSED], pod=pod)
    story = Told(
        logs="/run/logs",
        cast=CAST,
        timeline=Records(record),  # type: ignore[arg-type]
        outcome=AS_TOLD,
        cards=[row("GPU-3", 3, M // 2)],
        findings=[Finding("late runs", True, "late: GPU-3")],
        seconds=12.3456,
    )
    for name, value in changes.items():
        setattr(story, name, value)
    return story


def test_a_story_that_happened_is_ok_and_tells_what_was_read_back() -> None:
    assert document(told()) == {
        "ok": True,
        "seconds": 12.346,
        "pods": [
            {
                "name": "late",
                "phase": "Running",
                "gates": [
                    {
                        "gate": 3,
                        "name": "AdmissionCheck",
                        "saw": "what it saw",
                        "answered": "held",
                        "message": HELD.answer.message,
                        "seconds": 1.0,
                    },
                    {
                        "gate": 3,
                        "name": "AdmissionCheck",
                        "saw": "what it saw",
                        "answered": "passed",
                        "message": "every Pod has its accelerators",
                        "seconds": 4.0,
                    },
                ],
                "cards": ["GPU-3"],
                "env": {"NVIDIA_VISIBLE_DEVICES": "GPU-3"},
            }
        ],
        "cards": [{"id": "GPU-3", "mode": 3, "allocated": M // 2, "remaining": M // 2}],
        "releaseToAdmittedSeconds": 1.5,
        "findings": [{"claim": "late runs", "holds": True, "saw": "late: GPU-3"}],
    }


def stories_that_did_not_happen() -> Iterator[Told]:
    yield Told()
    yield told(findings=[])
    yield told(findings=[Finding("late runs", True, ""), Finding("late is alone", False, "")])
    yield told(failure=StepError("late runs", "it does not"))


@pytest.mark.parametrize("story", [*stories_that_did_not_happen()])
def test_a_story_is_ok_only_if_every_claim_was_judged_and_holds(story: Told) -> None:
    assert document(story)["ok"] is False


def test_a_failure_names_the_step_what_was_seen_and_the_logs_and_keeps_what_came_before() -> None:
    written = document(told(failure=StepError("late runs", "after 40 s: it is Pending"), outcome=None))
    assert written["failure"] == {"step": "late runs", "saw": "after 40 s: it is Pending", "logs": "/run/logs"}
    assert [pod["name"] for pod in written["pods"]] == ["late"]
    assert written["releaseToAdmittedSeconds"] is None
