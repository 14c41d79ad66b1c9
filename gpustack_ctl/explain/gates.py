"""The five gates in their order, asked about one Pod, or about a Workload and all of its Pods."""

from collections.abc import Sequence

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.labels import KUEUE_QUEUE_NAME
from gpustack_ctl.explain.answers import Answer, together
from gpustack_ctl.explain.check import Outlook, check_of
from gpustack_ctl.explain.check import not_queued as check_not_asked
from gpustack_ctl.explain.credits import Place, credits_of
from gpustack_ctl.explain.credits import not_queued as credits_not_asked
from gpustack_ctl.explain.devices import settled
from gpustack_ctl.explain.scheduling import NO_PODS, scheduled
from gpustack_ctl.explain.webhook import asked_at_creation, asked_of_template, requested
from gpustack_ctl.kube.objects import Obj, labels_of, name_of


def explain_pod(
    pod: Obj,
    workload: Obj | None,
    *,
    table: Manufacturers,
    place: Place | None = None,
    told: str = "",
    outlook: Outlook | None = None,
) -> list[Answer]:
    """All five answers about a Pod that exists, in the order of the gates.

    Pod and Workload say what was answered. What would have to change takes the rest: where the Workload waits, what the
    event of its last hold told, and what gate 3 would say now.
    """
    queue = queue_of(pod, workload)
    return [
        asked_at_creation(pod, table, pool=place.pool if place else None, queue=queue),
        credits_of(workload, table=table, place=place) if queue else credits_not_asked(),
        check_of(workload, told=told, outlook=outlook) if queue else check_not_asked(),
        scheduled(pod),
        settled(pod, table),
    ]


def queue_of(pod: Obj, workload: Obj | None) -> str:
    """The entrance through which a Pod came, by its own label or its Job's; empty when through none."""
    return labels_of(pod).get(KUEUE_QUEUE_NAME) or str((workload or {"spec": {}})["spec"].get("queueName", ""))


def explain_workload(
    workload: Obj,
    pods: Sequence[Obj],
    *,
    table: Manufacturers,
    place: Place,
    told: str = "",
    outlook: Outlook | None = None,
    refused: str = "",
) -> list[Answer]:
    """All five answers about a Workload; `refused` is what kept its owner from making Pods, where that is known.

    Gate 1 is asked about the Workload's templates, gates 4 and 5 about each of its Pods.
    """
    return [
        _templates(workload, table, place, refused),
        credits_of(workload, table=table, place=place),
        check_of(workload, told=told, outlook=outlook),
        together(4, {name_of(pod): scheduled(pod) for pod in pods}) if pods else Answer(4, "", "waiting", NO_PODS),
        together(5, {name_of(pod): settled(pod, table) for pod in pods}) if pods else Answer(5, "", "waiting", NO_PODS),
    ]


def _templates(workload: Obj, table: Manufacturers, place: Place, refused: str) -> Answer:
    queue = workload["spec"].get("queueName", "")
    specs = {each.get("name", "main"): each["template"]["spec"] for each in workload["spec"].get("podSets") or ()}
    if refused:
        saw = "; ".join(requested(spec, table) for spec in specs.values())
        return Answer(1, saw, "refused", refused, "the fields that it names, in the owner's template")
    return together(
        1, {name: asked_of_template(spec, table, pool=place.pool, queue=queue) for name, spec in specs.items()}
    )
