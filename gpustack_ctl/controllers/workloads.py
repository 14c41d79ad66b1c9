"""Reading a Kueue Workload: which Pods it puts on which node, and whether gate 3 has a say in it now.

Kueue stores a topology assignment compactly (v1beta2): node names are cut into a common prefix, a suffix and roots, one
value may stand for all domains of a slice, and so may one Pod count. Everything here undoes that, so that the rest of
the package sees a PodSet as a `Role`: so many Pods of this template, so many of them on each node.

Pure functions over the Workload as the API server gives it; nothing here writes or waits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat

from gpustack_ctl.accel.labels import ADMISSION_CHECK, HOSTNAME
from gpustack_ctl.kube.objects import Obj, deleting, is_true

CREDITS_PREFIX = "credits.gpustack.ai/"


@dataclass(frozen=True, slots=True)
class Role:
    """One PodSet as Kueue placed it.

    `flavors` are the ResourceFlavors assigned for its credits: exactly one when all is well. `nodes` is the number of
    its Pods per node, or None when Kueue assigned no hostname and the PodSet may run anywhere in its flavor. `fault`
    says what in its placement cannot be read; then `nodes` is empty, and nobody may be told that it fits.
    """

    name: str
    pods: int
    template: Obj
    flavors: tuple[str, ...]
    nodes: Mapping[str, int] | None
    fault: str = ""

    @property
    def pod_spec(self) -> Obj:
        return dict(self.template.get("spec") or {})

    @property
    def unplaced(self) -> int:
        """The Pods for which the placement names no node, though it names nodes."""
        return 0 if self.nodes is None else max(self.pods - sum(self.nodes.values()), 0)

    @property
    def annotations(self) -> Mapping[str, str]:
        """What the template writes on its Pods."""
        return (self.template.get("metadata") or {}).get("annotations") or {}


def roles_of(workload: Obj) -> tuple[Role, ...]:
    """The PodSets of a Workload that holds quota, in its own order; empty while it is not placed."""
    admission = (workload.get("status") or {}).get("admission")
    if not admission:
        return ()
    pod_sets = {pod_set.get("name", "main"): pod_set for pod_set in workload["spec"].get("podSets", ())}
    placed = ((pod_sets.get(item.get("name", "main")), item) for item in admission.get("podSetAssignments") or ())
    return tuple(_role(pod_set, assignment) for pod_set, assignment in placed if pod_set is not None)


def nodes_of(workload: Obj) -> frozenset[str]:
    """Every node that the Workload was assigned; empty when it was assigned none by name."""
    return frozenset(node for role in roles_of(workload) for node in role.nodes or ())


def check_state(workload: Obj) -> Obj | None:
    """What gate 3 last said of this Workload; None when the Workload does not list the check."""
    return next((state for state in _check_states(workload) if state.get("name") == ADMISSION_CHECK), None)


def awaits_verdict(workload: Obj) -> bool:
    """Whether gate 3 may answer now: quota is held, the check is listed, and nothing has ended or is being undone.

    An evicted Workload is left alone. Kueue resets its checks and its reservation in two writes, and an answer that
    lands between them would overwrite the reset and keep the Workload waiting for ever.
    """
    return (
        check_state(workload) is not None
        and is_true(workload, "QuotaReserved")
        and not is_true(workload, "Admitted")
        and not is_true(workload, "Evicted")
        and not is_true(workload, "Finished")
        and not deleting(workload)
    )


def holds_accelerators(workload: Obj) -> bool:
    """Whether the Workload's Pods may still take accelerators: it is admitted, or gate 3 has said Ready.

    An evicted one starts no more Pods; those that it has are in the ledger until they are gone.
    """
    if not is_true(workload, "QuotaReserved") or is_true(workload, "Finished") or is_true(workload, "Evicted"):
        return False
    if is_true(workload, "Admitted"):
        return True
    state = check_state(workload)
    return state is not None and state.get("state") == "Ready"


def is_coming(workload: Obj) -> bool:
    """Whether Kueue has placed the Workload and gate 3 has yet to look at it."""
    return awaits_verdict(workload) and (check_state(workload) or {}).get("state") == "Pending"


def waits_for_requeue(workload: Obj) -> bool:
    """Whether ours and every other check say Ready and yet Kueue sits out the delay that a Retry had asked for."""
    if not awaits_verdict(workload) or not (workload["status"].get("requeueState") or {}).get("requeueAt"):
        return False
    return all(state.get("state") == "Ready" for state in _check_states(workload))


def pods_per_node(assignment: Obj | None) -> dict[str, int] | None:
    """Pods per node of a topologyAssignment; None when its lowest level is not the hostname.

    Raises ValueError where the assignment contradicts itself.
    """
    if not assignment or not assignment.get("levels") or assignment["levels"][-1] != HOSTNAME:
        return None
    pods: dict[str, int] = {}
    for part in assignment.get("slices") or ():
        try:
            found = _pods_of_slice(part["valuesPerLevel"][-1], part["podCounts"], part["domainCount"])
        except (AttributeError, IndexError, KeyError, TypeError) as missing:
            raise ValueError(f"a slice lacks {missing}") from missing
        for node, count in found:
            pods[node] = pods.get(node, 0) + count
    return pods


def _role(pod_set: Obj, assignment: Obj) -> Role:
    flavors = assignment.get("flavors") or {}
    pods = assignment.get("count") or pod_set.get("count") or 0
    try:
        nodes, fault = pods_per_node(assignment.get("topologyAssignment")), ""
    except ValueError as cause:
        nodes, fault = {}, f"its topologyAssignment cannot be read: {cause}"
    return Role(
        name=pod_set.get("name", "main"),
        pods=pods,
        template=pod_set.get("template") or {},
        flavors=tuple(sorted({name for key, name in flavors.items() if key.startswith(CREDITS_PREFIX)})),
        nodes=nodes,
        fault=fault,
    )


def _pods_of_slice(level: Obj, counts: Obj, domains: int) -> Iterable[tuple[str, int]]:
    """Nodes and their Pods; what is said once for all domains is never written out: there may be a billion of them."""
    universal, same = level.get("universal"), counts.get("universal")
    individual = [] if same is not None else counts["individual"]
    if same is None and len(individual) != domains:
        raise ValueError(f"{domains} domains have {len(individual)} counts")
    if universal is not None:
        return [(universal, sum(individual) if same is None else same * domains)]
    names = level["individual"]
    if len(names["roots"]) != domains:
        raise ValueError(f"{domains} domains have {len(names['roots'])} values")
    prefix, suffix = names.get("prefix") or "", names.get("suffix") or ""
    nodes = (f"{prefix}{root}{suffix}" for root in names["roots"])
    return zip(nodes, individual if same is None else repeat(same), strict=False)


def _check_states(workload: Obj) -> list[Obj]:
    return workload.get("status", {}).get("admissionChecks") or []
