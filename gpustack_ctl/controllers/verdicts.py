"""Gate 3's answers as Kueue stores them: a pure function from a verdict to one merge patch of the Workload's status.

The patch carries the whole list of check states, the others' as they were read, and the resourceVersion: a verdict on a
Workload that has changed since is refused by the API server and judged again. It is never an apply. Kueue copies
`requeueAfterSeconds` into the state that it resets after an eviction, and an applied verdict that merely leaves the
field out would leave the old delay in force.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gpustack_ctl.accel.labels import ADMISSION_CHECK, PLANNED
from gpustack_ctl.controllers.workloads import check_state, roles_of
from gpustack_ctl.kube.objects import Obj

RETRY_SECONDS = 30
"""How long a Workload that no pin parks is held before Kueue places it again."""

HELD, FOUND = "AcceleratorsHeld", "AcceleratorsFound"
"""Reasons of the events that tell of a verdict. Kueue resets the check's words; for an hour these still say them."""

_LONGEST_MESSAGE = 32_768


@dataclass(frozen=True, slots=True)
class Verdict:
    """Ready or Retry; never Rejected, because what does not fit today may fit tomorrow.

    `plans` is the plan annotation of each role, which Kueue copies onto its Pods.
    """

    state: Literal["Ready", "Retry"]
    message: str
    plans: Mapping[str, str] = field(default_factory=dict)


def is_news(workload: Obj, verdict: Verdict) -> bool:
    """Whether the Workload does not say so already."""
    said = check_state(workload) or {}
    return said.get("state") != verdict.state or said.get("message") != verdict.message[:_LONGEST_MESSAGE]


def verdict_patch(workload: Obj, verdict: Verdict, *, now: str, delay: int | None = RETRY_SECONDS) -> dict[str, Any]:
    """The merge patch that writes the verdict; a Retry asks for the delay, or with None to be taken back at once.

    A repeated Retry keeps the moment of the first: Kueue counts the delay from there. A Ready takes back the delay
    that an earlier Retry asked for, which Kueue would otherwise sit out.
    """
    said = check_state(workload) or {}
    state: dict[str, Any] = {
        "name": ADMISSION_CHECK,
        "state": verdict.state,
        "message": verdict.message[:_LONGEST_MESSAGE],
        "lastTransitionTime": said.get("lastTransitionTime", now) if said.get("state") == verdict.state else now,
    }
    if "retryCount" in said:
        state["retryCount"] = said["retryCount"]
    if verdict.state == "Retry":
        state |= {} if delay is None else {"requeueAfterSeconds": delay}
    elif updates := _updates(workload, verdict):
        state["podSetUpdates"] = updates
    others = [each for each in workload["status"]["admissionChecks"] if each.get("name") != ADMISSION_CHECK]
    patch = _patch(workload, {"admissionChecks": [*others, state]})
    if verdict.state == "Ready" and _delayed(workload):
        patch["status"]["requeueState"] = {"requeueAt": None}
    return patch


def undelay_patch(workload: Obj) -> dict[str, Any]:
    """The merge patch that lets a Workload go on whose checks all say Ready; the field is removed, never set."""
    return _patch(workload, {"requeueState": {"requeueAt": None}})


def _patch(workload: Obj, status: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": workload["metadata"]["resourceVersion"]}, "status": status}


def _delayed(workload: Obj) -> bool:
    return "requeueAt" in (workload["status"].get("requeueState") or {})


def _updates(workload: Obj, verdict: Verdict) -> list[dict[str, Any]]:
    """The plans by role. A template that has the annotation already gets none: Kueue would fail the Workload."""
    planned = [
        role.name for role in roles_of(workload) if role.name in verdict.plans and PLANNED not in role.annotations
    ]
    return [{"name": name, "annotations": {PLANNED: verdict.plans[name]}} for name in planned]
