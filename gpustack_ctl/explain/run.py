"""The command's work: read the cluster once, find what was asked about, and put the question to every gate."""

import os
from collections.abc import Iterable
from typing import Any

import orjson

from gpustack_ctl.accel.families import Manufacturers, manufacturers
from gpustack_ctl.accel.labels import PLACEMENT_PIN, PLANNED
from gpustack_ctl.accel.pools import pool_of
from gpustack_ctl.accel.switches import release_terminated
from gpustack_ctl.controllers.fleet import Fleet
from gpustack_ctl.controllers.pins import pin_of
from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.controllers.workloads import check_state
from gpustack_ctl.explain import events
from gpustack_ctl.explain.answers import Explanation
from gpustack_ctl.explain.check import Outlook
from gpustack_ctl.explain.credits import Place
from gpustack_ctl.explain.gates import explain_pod, explain_workload, queue_of
from gpustack_ctl.explain.outlook import Surroundings, outlook
from gpustack_ctl.explain.snapshot import snapshot
from gpustack_ctl.explain.subjects import find, pods_of, workload_of
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj, annotations_of, is_true


async def explain(
    kind: str, name: str, namespace: str, kubeconfig: str | None = None, context: str | None = None
) -> Explanation:
    """Explain a `pod` or a `workload`. Raises NoSuchObjectError when there is none, and KubeError."""
    async with Kube.connect(kubeconfig=kubeconfig, context=context) as kube:
        reading = _Reading(kube, await snapshot(kube), manufacturers(os.environ))
        return await (reading.pod if kind == "pod" else reading.workload)(name, namespace)


class _Reading:
    """One look at the cluster, and what it says about one object."""

    def __init__(self, kube: Kube, sources: Sources, table: Manufacturers) -> None:
        self._kube, self._sources, self._table = kube, sources, table
        self._fleet = Fleet(kube=kube, sources=sources, table=table, release_terminated=release_terminated(os.environ))

    async def pod(self, name: str, namespace: str) -> Explanation:
        pod = find(self._sources.pods, name, namespace)
        workload = workload_of(pod, self._sources.workloads.list())
        place = self._place(workload, queue_of(pod, workload), namespace)
        answers = explain_pod(
            pod,
            workload,
            table=self._table,
            place=place,
            told=await self._told(workload),
            outlook=self._outlook(workload, place),
        )
        plan = _parsed(annotations_of(pod).get(PLANNED)) or _only(_plans(workload))
        return Explanation("Pod", namespace, name, answers, pin=_pin(workload), plan=plan)

    async def workload(self, name: str, namespace: str) -> Explanation:
        workload = find(self._sources.workloads, name, namespace)
        place = self._place(workload, workload["spec"].get("queueName", ""), namespace)
        pods = pods_of(workload, self._sources.pods.list())
        answers = explain_workload(
            workload,
            pods,
            table=self._table,
            place=place,
            told=await self._told(workload),
            outlook=self._outlook(workload, place),
            refused="" if pods else await events.refused_pods(self._kube, workload),
        )
        return Explanation("Workload", namespace, name, answers, pin=_pin(workload), plan=_plans(workload) or None)

    def _place(self, workload: Obj | None, queue: str, namespace: str) -> Place:
        """Where it waits: by the queue that has admitted it, else by the entrance that it names."""
        entrance = self._sources.local_queues.get(f"{namespace}/{queue}")
        admission = ((workload or {}).get("status") or {}).get("admission") or {}
        named = admission.get("clusterQueue") or (entrance or {"spec": {}})["spec"].get("clusterQueue", "")
        instance_type = self._sources.instance_types.get(named)
        return Place(
            entrance=entrance,
            queue=self._sources.cluster_queues.get(named),
            instance_type=instance_type,
            pool=pool_of(instance_type, table=self._table) if instance_type is not None else None,
        )

    async def _told(self, workload: Obj | None) -> str:
        """What the last hold said: the pin still tells it of a Workload that is parked, else an event does."""
        if workload is None or _is_through(workload):
            return ""
        pin = pin_of(workload)
        return pin.why if pin is not None else await events.last_hold(self._kube, workload)

    def _outlook(self, workload: Obj | None, place: Place) -> Outlook | None:
        if workload is None or _is_through(workload):
            return None
        return outlook(workload, place, Surroundings(self._sources, self._fleet, self._table))


def _is_through(workload: Obj) -> bool:
    """Whether gate 3 has no more to say."""
    ready = (check_state(workload) or {}).get("state") == "Ready"
    return ready or is_true(workload, "Admitted") or is_true(workload, "Finished")


def _pin(workload: Obj | None) -> Any:
    return _parsed(annotations_of(workload).get(PLACEMENT_PIN)) if workload is not None else None


def _plans(workload: Obj | None) -> dict[str, Any]:
    """The plan of each PodSet, as gate 3 handed it to Kueue."""
    updates: Iterable[Obj] = (check_state(workload) or {}).get("podSetUpdates") or () if workload is not None else ()
    plans = {update["name"]: _parsed((update.get("annotations") or {}).get(PLANNED)) for update in updates}
    return {role: plan for role, plan in plans.items() if plan is not None}


def _only(plans: dict[str, Any]) -> Any:
    return next(iter(plans.values())) if len(plans) == 1 else None


def _parsed(text: str | None) -> Any:
    """An annotation that is JSON, as it means; one that is not, as it stands."""
    try:
        return None if text is None else orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
