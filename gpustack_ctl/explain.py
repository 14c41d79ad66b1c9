"""Gate by gate: what each gate saw of a Pod, and what it answered, read from live objects alone.

A gate leaves its answer where it decided: folded keys on the Pod, conditions and check states on the Workload, the node
in the Pod's spec, the allocation record in its annotations. Reading those back, instead of remembering what happened,
means the explanation is the same for every reader and survives every restart.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpustack_ctl.accel.families import KeyKind, Manufacturers
from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.accel.records import parse_record
from gpustack_ctl.accel.units import M, QuantityError, quantity
from gpustack_ctl.kube.objects import Obj, annotations_of, condition

Answered = Literal["passed", "refused", "held", "waiting", "unknown"]

CHECK = "gpustack-node-devices"

GATES: Mapping[int, str] = {
    1: "Pod webhook",
    2: "Kueue credits",
    3: "AdmissionCheck",
    4: "scheduler and kubelet",
    5: "device plugin",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One gate's answer to one Pod: what it looked at, what it said, and why."""

    gate: int
    saw: str
    answered: Answered
    message: str = ""

    @property
    def name(self) -> str:
        return GATES[self.gate]


def explain_pod(pod: Obj, workload: Obj | None, *, table: Manufacturers) -> list[Answer]:
    """All five answers about a Pod that exists, in the order of the gates."""
    return [
        _webhook(pod, table),
        _credits(workload, table),
        _check(workload),
        _scheduled(pod),
        _settled(pod),
    ]


def refused_at_creation(asked: Mapping[str, str], message: str) -> Answer:
    """Gate 1's answer to a Pod that was never stored: `message` is the API server's."""
    return Answer(1, _keys(asked), "refused", message)


def cards_of_pod(pod: Obj) -> list[str]:
    """The ids of the cards a Pod holds by its allocation record, each once, in the record's order."""
    record = annotations_of(pod).get(ALLOCATED)
    if record is None:
        return []
    return list(dict.fromkeys(entry.id for entries in parse_record(record).values() for entry in entries))


def _webhook(pod: Obj, table: Manufacturers) -> Answer:
    """The keys the webhook derived are its answer; the others are what it was asked."""
    asked: dict[str, str] = {}
    folded: list[str] = []
    for key, value in _claims(pod, table):
        read = table.read(key)
        if read and read.kind in (KeyKind.SLICED_UNITS, KeyKind.PARTITIONED_UNITS):
            folded.append(f"{key}={_units(value)}")
        else:
            asked[key] = value
    return Answer(1, _keys(asked), "passed", "folded to " + ", ".join(folded) if folded else "")


def _claims(pod: Obj, table: Manufacturers) -> Iterator[tuple[str, str]]:
    spec = pod["spec"]
    for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
        for key, value in ((container.get("resources") or {}).get("limits") or {}).items():
            if table.read(key):
                yield key, value


def _credits(workload: Obj | None, table: Manufacturers) -> Answer:
    if workload is None:
        return Answer(2, "", "waiting", "Kueue has made no Workload for the Pod yet")
    reserved = condition(workload, "QuotaReserved")
    if reserved is None or reserved.get("status") != "True":
        return Answer(2, "", "waiting", (reserved or {}).get("message", "no quota reserved yet"))
    admission = (workload.get("status") or {}).get("admission") or {}
    seen = [_assignment(assigned, table) for assigned in admission.get("podSetAssignments") or ()]
    return Answer(2, "; ".join(seen), "passed", f"quota reserved in {admission.get('clusterQueue')}")


def _assignment(assigned: Mapping[str, Any], table: Manufacturers) -> str:
    usage: Mapping[str, str] = assigned.get("resourceUsage") or {}
    charged = [f"{_cards(units)} of {key}" for key, units in usage.items() if table.of_credits(key)]
    flavors = sorted({flavor for key, flavor in (assigned.get("flavors") or {}).items() if table.of_credits(key)})
    return f"{', '.join(charged) or 'no credits'} from {', '.join(flavors) or 'no flavor'}"


def _cards(amount: str) -> str:
    """A charge in units, and as the cards it stands for."""
    units = _units(amount)
    return f"{units:,} units ({units / M:g} cards)" if isinstance(units, int) else units


def _units(amount: str) -> int | str:
    """A quantity as a number: the API server spells 800000 as 800k."""
    try:
        return quantity(amount)
    except QuantityError:
        return amount


def _check(workload: Obj | None) -> Answer:
    status = (workload or {}).get("status") or {}
    state = next((check for check in status.get("admissionChecks") or () if check.get("name") == CHECK), None)
    if state is None:
        return Answer(3, "", "waiting", "not asked yet")
    message = state.get("message", "")
    match state.get("state"):
        case "Ready":
            return Answer(3, "the ledger of the node assigned", "passed", message)
        case "Retry":
            return Answer(3, "the ledger of the node assigned", "held", message)
        case "Rejected":
            return Answer(3, "", "refused", message)
        case _:
            return Answer(3, "", "waiting", message)


def _scheduled(pod: Obj) -> Answer:
    node = pod["spec"].get("nodeName")
    status = pod.get("status") or {}
    if not node:
        scheduled = condition(pod, "PodScheduled") or {}
        return Answer(4, "", "waiting", scheduled.get("message", "not scheduled yet"))
    if status.get("phase") == "Failed" and str(status.get("reason", "")).startswith("OutOf"):
        return Answer(4, f"node {node}", "refused", status.get("message", ""))
    return Answer(4, f"the keys node {node} has left", "passed", f"bound to {node}")


def _settled(pod: Obj) -> Answer:
    status = pod.get("status") or {}
    if status.get("reason") == "UnexpectedAdmissionError":
        return Answer(5, "", "refused", status.get("message", ""))
    cards = cards_of_pod(pod)
    if not cards:
        return Answer(5, "", "waiting", "no card settled yet")
    return Answer(5, "the live cards of the node", "passed", ", ".join(cards))


def _keys(asked: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in asked.items())
