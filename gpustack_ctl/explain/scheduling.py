"""Gate 4, scheduler and kubelet: they count the keys that a node has left, and know nothing of cards."""

from gpustack_ctl.explain.answers import Answer
from gpustack_ctl.kube.objects import Obj, condition

NO_PODS = "there is no Pod yet"


def scheduled(pod: Obj) -> Answer:
    """Gate 4's answer to a Pod."""
    node = pod["spec"].get("nodeName")
    status = pod.get("status") or {}
    if not node:
        return _unscheduled(pod)
    if status.get("phase") == "Failed" and str(status.get("reason", "")).startswith("OutOf"):
        message = status.get("message", "")
        return Answer(4, f"node {node}", "refused", message, "a new Pod: the kubelet does not look at this one again")
    return Answer(4, f"the keys node {node} has left", "passed", f"bound to {node}")


def _unscheduled(pod: Obj) -> Answer:
    found = condition(pod, "PodScheduled") or {}
    message = found.get("message") or "not scheduled yet"
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    if gates:
        return Answer(4, f"scheduling gates {', '.join(gates)}", "waiting", message, "the gates before it to pass")
    if found.get("reason") == "Unschedulable":
        return Answer(4, "the keys the nodes have left", "waiting", message, "a node with all that the message misses")
    return Answer(4, "", "waiting", message)
