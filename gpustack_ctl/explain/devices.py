"""Gate 5, the device plugin: it settles the cards, and records them on the Pod.

It serves every Pod on its node, whether the Pod came through a queue or not.
"""

from gpustack_ctl.accel.families import Manufacturers, Mode
from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.accel.ledger import asking, is_finished
from gpustack_ctl.accel.records import Entry, RecordError, readable_record, record_of
from gpustack_ctl.accel.refusals import percent
from gpustack_ctl.explain.answers import Answer
from gpustack_ctl.kube.objects import Obj

_NEVER_AGAIN = "a new Pod: the kubelet does not look at this one again"


def settled(pod: Obj, table: Manufacturers) -> Answer:
    """Gate 5's answer to a Pod."""
    status = pod.get("status") or {}
    if status.get("reason") == "UnexpectedAdmissionError":
        return Answer(5, "", "refused", status.get("message", ""), _NEVER_AGAIN)
    claims = asking(pod, table)
    try:
        record = record_of(pod)
    except RecordError as fault:
        return Answer(5, "", "unknown", f"the record {ALLOCATED} {fault}", "the node's agent to write the record anew")
    held = [entry for entries in record.values() for entry in entries]
    if not held:
        if not claims:
            return Answer(5, "", "unknown", "not asked: the Pod asks for no device")
        return Answer(5, "", "waiting", "no card settled yet")
    message = ", ".join(dict.fromkeys(map(_entry, held)))
    if missing := sorted(claims.keys() - record.keys()):
        return Answer(5, message, "waiting", f"no card settled yet for {', '.join(missing)}")
    ended = ", which has ended" if is_finished(pod) else ""
    return Answer(5, f"the live cards of node {pod['spec'].get('nodeName')}{ended}", "passed", message)


def cards_of_pod(pod: Obj) -> list[str]:
    """The ids of the cards a Pod holds by its record, each once, in the record's order; none if it cannot be read."""
    return list(dict.fromkeys(entry.id for entries in readable_record(pod).values() for entry in entries))


def _entry(entry: Entry) -> str:
    part = entry.profile or ("a share" if entry.mode is Mode.SHARED else percent(entry.units))
    return entry.id if entry.mode is Mode.EXCLUSIVE else f"{entry.id} ({part})"
