"""What a verdict writes, and what it must leave as it was."""

from typing import Any

from gpustack_ctl.accel.labels import ADMISSION_CHECK, PLANNED
from gpustack_ctl.controllers.verdicts import RETRY_SECONDS, Verdict, is_news, undelay_patch, verdict_patch

EARLIER, NOW = "2026-12-01T14:00:00Z", "2026-12-01T14:00:20Z"
OTHER = {"name": "other", "state": "Ready", "message": "fine", "lastTransitionTime": EARLIER}


def workload(
    state: str, *, message: str = "", annotations: dict[str, str] | None = None, **rest: Any
) -> dict[str, Any]:
    ours = {"name": ADMISSION_CHECK, "state": state, "message": message, "lastTransitionTime": EARLIER, **rest}
    template = {"metadata": {"annotations": annotations or {}}, "spec": {"containers": []}}
    return {
        "metadata": {"name": "w", "namespace": "team", "resourceVersion": "41"},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
        "status": {
            "admission": {"clusterQueue": "pool", "podSetAssignments": [{"name": "main", "count": 1}]},
            "admissionChecks": [ours, OTHER],
        },
    }


def ours(patch: dict[str, Any]) -> dict[str, Any]:
    (state,) = [each for each in patch["status"]["admissionChecks"] if each["name"] == ADMISSION_CHECK]
    return dict(state)


def test_a_verdict_names_the_version_it_judged_and_keeps_the_other_checks() -> None:
    patch = verdict_patch(workload("Pending"), Verdict("Ready", "fits"), now=NOW)
    assert patch["metadata"] == {"resourceVersion": "41"}
    assert OTHER in patch["status"]["admissionChecks"]
    assert ours(patch) == {"name": ADMISSION_CHECK, "state": "Ready", "message": "fits", "lastTransitionTime": NOW}


def test_a_retry_asks_for_the_delay_and_a_repeated_one_does_not_prolong_it() -> None:
    first = ours(verdict_patch(workload("Pending"), Verdict("Retry", "full"), now=NOW))
    assert (first["requeueAfterSeconds"], first["lastTransitionTime"]) == (RETRY_SECONDS, NOW)
    again = ours(verdict_patch(workload("Retry", message="full"), Verdict("Retry", "fuller"), now=NOW))
    assert (again["message"], again["lastTransitionTime"]) == ("fuller", EARLIER)


def test_a_ready_drops_the_delay_that_kueue_carried_over_and_keeps_its_count_of_retries() -> None:
    reset = workload("Pending", requeueAfterSeconds=30, retryCount=2)
    state = ours(verdict_patch(reset, Verdict("Ready", "fits"), now=NOW))
    assert "requeueAfterSeconds" not in state
    assert state["retryCount"] == 2


def test_a_ready_after_a_retry_takes_back_the_moment_that_kueue_waits_for() -> None:
    held = workload("Retry")
    held["status"]["requeueState"] = {"requeueAt": NOW, "count": 3}
    patch = verdict_patch(held, Verdict("Ready", "fits"), now=NOW)
    assert patch["status"]["requeueState"] == {"requeueAt": None}
    assert undelay_patch(held)["status"] == {"requeueState": {"requeueAt": None}}
    assert "requeueState" not in verdict_patch(held, Verdict("Retry", "full"), now=NOW)["status"]


def test_a_plan_travels_with_its_role_unless_the_template_has_one_already() -> None:
    ready = Verdict("Ready", "fits", {"main": "plan", "unknown": "plan"})
    updates = ours(verdict_patch(workload("Pending"), ready, now=NOW))["podSetUpdates"]
    assert updates == [{"name": "main", "annotations": {PLANNED: "plan"}}]
    forged = workload("Pending", annotations={PLANNED: "forged"})
    assert "podSetUpdates" not in ours(verdict_patch(forged, ready, now=NOW))


def test_saying_the_same_again_is_no_news() -> None:
    assert not is_news(workload("Retry", message="full"), Verdict("Retry", "full"))
    assert is_news(workload("Retry", message="full"), Verdict("Retry", "fuller"))
    assert is_news(workload("Retry", message="full"), Verdict("Ready", "full"))
    longest = "x" * 40_000
    assert not is_news(workload("Retry", message=longest[:32_768]), Verdict("Retry", longest))
