"""What only an event still tells: Kueue resets a check's words, and a Pod that was refused leaves no object at all."""

from gpustack_ctl.controllers.verdicts import FOUND, HELD
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj, Objs, name_of, namespace_of
from gpustack_ctl.kube.resources import EVENTS

_GATE_1 = "worker.gpustack.ai"
"""In the name of every webhook of ours, which the API server puts into a refusal."""


async def last_hold(kube: Kube, workload: Obj) -> str:
    """What gate 3 last said when it held the Workload; empty when it last let it go, or said nothing in an hour."""
    told = [event for event in await _regarding(kube, workload) if event.get("reason") in (HELD, FOUND)]
    last = max(told, key=moment, default=None)
    return str(last.get("note", "")) if last is not None and last["reason"] == HELD else ""


async def refused_pods(kube: Kube, workload: Obj) -> str:
    """Why gate 1 let the owner of the Workload, a Job for instance, make no Pods; empty when no event says so."""
    failed = [
        event
        for owner in workload["metadata"].get("ownerReferences") or ()
        for event in await _regarding(kube, {"metadata": {**owner, "namespace": namespace_of(workload)}})
        if event.get("reason") == "FailedCreate" and _GATE_1 in event.get("note", "")
    ]
    last = max(failed, key=moment, default=None)
    return str(last.get("note", "")) if last is not None else ""


def moment(event: Obj) -> str:
    """When an event was last told, by whichever of its fields says so; moments of one day sort as text."""
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("eventTime")
        or event.get("deprecatedLastTimestamp")
        or event["metadata"].get("creationTimestamp", "")
    )


async def _regarding(kube: Kube, obj: Obj) -> Objs:
    """The events about an object that exists now, not about one that had its name."""
    uid = obj["metadata"].get("uid", "")
    return await kube.list(
        EVENTS, namespace_of(obj), field_selector=f"regarding.name={name_of(obj)},regarding.uid={uid}"
    )
