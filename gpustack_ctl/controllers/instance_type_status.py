"""`InstanceType.status` from facts: a pure function, so that every phase can be tabled in a test.

The phase says in one word whether the pool takes work, and `phaseMessage` why not. `printed` holds the strings that
`kubectl get instancetypes` shows, because a printer column cannot compute.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpustack_ctl.accel.naming import entrance_name
from gpustack_ctl.accel.views import FourViews
from gpustack_ctl.kube.objects import Obj, condition, deleting, name_of

Phase = Literal["Active", "Inactive", "Draining", "Pending", "Deleting"]


@dataclass(frozen=True, slots=True)
class CpuView:
    """Millicores of a pool's nodes: all of them, what is not requested, and the most that one node has left."""

    capacity: int = 0
    remaining: int = 0
    once_max_request: int = 0


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """Everything the status is made of. `views` is None for a pool of CPUs; `detail` None while nothing is known."""

    cpu: CpuView
    views: FourViews | None = None
    detail: Mapping[str, Any] | None = None
    refusal: str | None = None


def status_of(instance_type: Obj, queue: Obj | None, facts: PoolFacts, *, now: str) -> dict[str, Any]:
    """The whole status. `now` stamps the conditions that change; those that hold keep the time since when they do."""
    phase, message = phase_of(instance_type, queue)
    views = facts.views
    known = instance_type.get("status", {}).get("detail")
    status: dict[str, Any] = {
        "entrance": entrance_name(name_of(instance_type)),
        "phase": phase,
        "phaseMessage": message,
        "conditions": _conditions(instance_type, phase, message, facts.refusal, now),
        "cpu": _cpu(facts.cpu),
        "printed": _printed(instance_type, facts),
    }
    # What the hardware can do stays known when its last node is away: requests are still measured against it.
    if detail := facts.detail or known:
        status["detail"] = detail
    if views is not None:
        status |= views.status()
    return status


def phase_of(instance_type: Obj, queue: Obj | None) -> tuple[Phase, str]:
    """Whether the pool takes work, and if not, why."""
    if deleting(instance_type):
        return "Deleting", "the instance type is being deleted"
    if queue is None:
        return "Pending", "the queue does not exist yet"
    reserving = queue.get("status", {}).get("reservingWorkloads", 0)
    policy = queue["spec"].get("stopPolicy", "None")
    if policy == "HoldAndDrain" and reserving:
        return "Draining", f"{reserving} workloads are being drained"
    if instance_type["spec"].get("inactive"):
        return "Inactive", "switched off: running work goes on, nothing new starts"
    if policy == "HoldAndDrain":
        return "Inactive", "the pool has no nodes"
    active = condition(queue, "Active")
    if active is not None and active.get("status") == "True":
        return "Active", ""
    return "Pending", _why(queue, active)


def _why(queue: Obj, active: Obj | None) -> str:
    if not queue["spec"].get("resourceGroups"):
        return "the queue has no flavors yet"
    return str(active.get("message", "")) if active else "Kueue has not looked at the queue yet"


def _conditions(instance_type: Obj, phase: Phase, message: str, refusal: str | None, now: str) -> list[dict[str, Any]]:
    ready = (phase == "Active", phase, message)
    topology = (False, "PlanRefused", refusal) if refusal else (True, "Planned", "")
    return [
        _condition(instance_type, kind, holds, reason, text, now)
        for kind, (holds, reason, text) in (("Ready", ready), ("TopologyReady", topology))
    ]


def _condition(instance_type: Obj, kind: str, holds: bool, reason: str, message: str, now: str) -> dict[str, Any]:
    status = "True" if holds else "False"
    before = condition(instance_type, kind) or {}
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since or now,
        "observedGeneration": instance_type["metadata"].get("generation", 0),
    }


def _printed(instance_type: Obj, facts: PoolFacts) -> dict[str, str]:
    spec = instance_type["spec"]
    unit = spec["unitResources"]
    printed = {
        "unit": f"{unit['cpu']}/{unit['ram']}/{spec['localStorage']}",
        "cpu": f"{cores(facts.cpu.once_max_request)}/{cores(facts.cpu.remaining)}",
    }
    if facts.views is not None:
        printed |= {"accelerator": facts.views.printed, "partitions": facts.views.partitions}
    return printed


def _cpu(view: CpuView) -> dict[str, str]:
    return {
        "onceMaxRequest": cores(view.once_max_request),
        "remaining": cores(view.remaining),
        "capacity": cores(view.capacity),
    }


def cores(millicores: int) -> str:
    """Millicores as Kubernetes writes them: whole cores where they are whole."""
    whole, rest = divmod(millicores, 1000)
    return f"{millicores}m" if rest else str(whole)
