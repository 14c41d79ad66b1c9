"""Gate 2, Kueue's credits: it reserves quota for a Workload, and has topology-aware scheduling choose the nodes.

Kueue's own words are the message. What they leave out is how far away a yes is, so the change is worked out from the
same figures: what each PodSet costs, and what each flavor of the queue has left.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.requests import read_pod
from gpustack_ctl.accel.units import M
from gpustack_ctl.controllers.pins import pin_of
from gpustack_ctl.controllers.quotas import quotas_of
from gpustack_ctl.explain.answers import Answer
from gpustack_ctl.explain.webhook import NOT_QUEUED, QUEUE_IT, units
from gpustack_ctl.kube.objects import Obj, condition, is_true, name_of


@dataclass(frozen=True, slots=True)
class Place:
    """Where a Workload waits: its entrance, the queue behind that, and the pool which that queue fronts.

    Each may be missing, and then that is the answer.
    """

    entrance: Obj | None = None
    queue: Obj | None = None
    instance_type: Obj | None = None
    pool: Pool | None = None


def credits_of(workload: Obj | None, *, table: Manufacturers, place: Place | None = None) -> Answer:
    """Gate 2's answer to a Workload; None for a Pod that has none yet. With its place, also what must change."""
    if workload is None:
        return Answer(2, "", "waiting", "Kueue has made no Workload for the Pod yet")
    if is_true(workload, "QuotaReserved"):
        admission = (workload.get("status") or {}).get("admission") or {}
        seen = [_assignment(assigned, table) for assigned in admission.get("podSetAssignments") or ()]
        return Answer(2, "; ".join(seen), "passed", f"quota reserved in {admission.get('clusterQueue')}")
    reserved = condition(workload, "QuotaReserved") or {}
    message = reserved.get("message") or "no quota reserved yet"
    if place is None:
        return Answer(2, "", "waiting", message)
    saw = "; ".join(_left(place.queue, table)) if place.queue is not None else ""
    return Answer(2, saw, "waiting", message, _change(workload, place, table))


def not_queued() -> Answer:
    """Gate 2 is not asked about a Pod without a queue label."""
    return Answer(2, "", "unknown", NOT_QUEUED, QUEUE_IT)


def _assignment(assigned: Mapping[str, Any], table: Manufacturers) -> str:
    usage: Mapping[str, str] = assigned.get("resourceUsage") or {}
    flavors: Mapping[str, str] = assigned.get("flavors") or {}
    charged = [f"{_cards(units(amount))} of {key}" for key, amount in usage.items() if table.of_credits(key)]
    if charged:
        sources = sorted({flavor for key, flavor in flavors.items() if table.of_credits(key)})
    else:
        charged = [f"{amount} of {key}" for key, amount in usage.items() if key in flavors]
        sources = sorted(set(flavors.values()))
    return f"{', '.join(charged) or 'no credits'} from {', '.join(sources) or 'no flavor'}"


def _cards(amount: int | str) -> str:
    """A charge in units, and as the cards it stands for."""
    return f"{amount:,} units ({amount / M:g} cards)" if isinstance(amount, int) else amount


def _left(queue: Obj, table: Manufacturers) -> Iterator[str]:
    for quota in quotas_of(queue):
        if table.of_credits(quota.resource):
            yield f"{quota.flavor} has {quota.left / M:g} of {quota.nominal / M:g} cards left in credits"


def _change(workload: Obj, place: Place, table: Manufacturers) -> str:
    """The first thing that stands in the way: switched off, no way in, on hold, or too few credits."""
    spec = workload["spec"]
    if spec.get("active") is False:
        return "spec.active: true on the Workload, which is switched off"
    if (pin := pin_of(workload)) is not None and pin.parked:
        return "gate 3 to let it go: it is parked where no node is, so that it holds no quota meanwhile"
    if place.entrance is None:
        return f"a LocalQueue {spec.get('queueName', '')} in the namespace: there is none"
    if place.queue is None:
        return (
            f"a ClusterQueue {place.entrance['spec'].get('clusterQueue')}, which the entrance leads to: there is none"
        )
    if stopped := _stopped(place):
        return stopped
    return "; ".join(_too_few_credits(workload, place, table)) or (
        "room on one node for everything that the Pod asks for, processors and memory included: the credits suffice"
    )


def _stopped(place: Place) -> str:
    for obj in (place.entrance, place.queue):
        policy = (obj or {"spec": {}})["spec"].get("stopPolicy", "None")
        if obj is None or policy == "None":
            continue
        status = (place.instance_type or {}).get("status") or {}
        reason = f": {status['phaseMessage']}" if status.get("phaseMessage") else ""
        return f"{obj['kind']} {name_of(obj)} to admit again, it is on {policy}{reason}"
    return ""


def _too_few_credits(workload: Obj, place: Place, table: Manufacturers) -> Iterator[str]:
    """For each PodSet that no flavor can pay for now: how much is missing where least is."""
    quotas = [*quotas_of(place.queue)] if place.queue is not None else []
    for pod_set in workload["spec"].get("podSets") or ():
        asked = read_pod(pod_set["template"]["spec"], table=table, pool=place.pool)
        if asked.manufacturer is None:
            continue
        cost = asked.units * (pod_set.get("count") or 1)
        paying = [quota for quota in quotas if table.of_credits(quota.resource) is table.by_key.get(asked.manufacturer)]
        if not paying:
            yield f"the queue to have a flavor with {asked.manufacturer} cards"
            continue
        most = max(quota.nominal for quota in paying)
        roomiest = max(paying, key=lambda quota: quota.left)
        if cost > most:
            yield f"a request of at most {most / M:g} cards, it is for {cost / M:g}; or more nodes in the pool"
        elif cost > roomiest.left:
            missing = f"{(cost - roomiest.left) / M:g} cards more in credits on {roomiest.flavor}"
            yield f"{missing}: other Workloads of the queue to end"
