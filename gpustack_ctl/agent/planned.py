"""What the admission check set aside: for the Pod at hand, and for its neighbours that have not come for it yet.

Plans are hints written on Pods. They are followed here so that the last Pod of a Workload still finds the room that was
counted for it, and they decide nothing: whoever forges one gets another order of preference and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpustack_ctl.accel.labels import KUEUE_PODSET, KUEUE_WORKLOAD, PLANNED
from gpustack_ctl.accel.placement import Planned
from gpustack_ctl.accel.plans import PodPlan, open_entries, parse_plan, planned_cards
from gpustack_ctl.accel.records import Record
from gpustack_ctl.kube.objects import Obj, annotations_of, labels_of, namespace_of, uid_of


@dataclass(frozen=True, slots=True)
class Hints:
    """Cards to take first, and cards to leave for others as long as there are any else."""

    prefer: tuple[Planned, ...] = ()
    avoid: tuple[Planned, ...] = ()


def hints_for(pod: Obj, container: str, *, node: str, pods: Iterable[Obj], record: Callable[[Obj], Record]) -> Hints:
    """The hints for one container. `pods` are those bound to the node; `record` says what a Pod holds already."""
    groups = _planned_groups([*(other for other in pods if uid_of(other) != uid_of(pod)), pod])
    own: Mapping[str, tuple[Planned, ...]] = {}
    avoid: list[Planned] = []
    for members in groups.values():
        waiting = [member for member in members if not record(member)]
        entries = open_entries(
            parse_plan(annotations_of(members[-1])[PLANNED], node),
            [record(member) for member in members if member is not pod],
        )
        if members[-1] is pod:
            own, entries = (entries[0] if entries else {}), entries[1:]
            waiting = [member for member in waiting if member is not pod]
        avoid += planned_cards(_first(entries, len(waiting)))
    return Hints(prefer=tuple(own.get(container, ())), avoid=tuple(avoid))


def _planned_groups(pods: Iterable[Obj]) -> dict[tuple[str, str, str], list[Obj]]:
    """Pods with a plan, by the PodSet that the plan was made for."""
    groups: dict[tuple[str, str, str], list[Obj]] = {}
    for pod in pods:
        workload = annotations_of(pod).get(KUEUE_WORKLOAD)
        if workload and PLANNED in annotations_of(pod):
            podset = labels_of(pod).get(KUEUE_PODSET, "")
            groups.setdefault((namespace_of(pod), workload, podset), []).append(pod)
    return groups


def _first(entries: tuple[PodPlan, ...], count: int) -> tuple[PodPlan, ...]:
    return entries[:count]
