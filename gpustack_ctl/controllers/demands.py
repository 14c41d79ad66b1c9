"""What a placed Workload wants of which cards: the question that gate 3 puts to `accel`.

One demand per PodSet and node. The request is read by the same reader as at gate 1, against the pool's InstanceType;
the model and the number of cards per node are those that the PodSet's own flavor pins, so that each role of a Workload
is judged against its own hardware and never against the whole pool.
"""

from collections.abc import Callable, Iterable, Iterator

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.feasibility import UNREADABLE_COUNT, Demand
from gpustack_ctl.accel.features import identity, label_count
from gpustack_ctl.accel.labels import ACCELERATABLE_PREFIX, accelerator
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.requests import PodDemand, read_pod
from gpustack_ctl.controllers.workloads import Role, roles_of
from gpustack_ctl.kube.objects import Obj, labels_of, name_of


class UnclearError(Exception):
    """The Workload cannot be judged as it stands; the text says why, for whoever waits for it."""


def demands_of(
    workload: Obj, *, pool: Pool | None, flavor_of: Callable[[str], Obj | None], table: Manufacturers
) -> tuple[Demand, ...]:
    """The demands of every PodSet that asks for accelerators; raises UnclearError."""
    found: list[Demand] = []
    roles = roles_of(workload)
    placed = {role.name for role in roles}
    for pod_set in workload["spec"].get("podSets") or ():
        if (name := pod_set.get("name", "main")) not in placed:
            raise UnclearError(f'role "{name}" has no part in the admission')
    for role in roles:
        if role.fault:
            raise UnclearError(f'role "{role.name}": {role.fault}')
        pod = read_pod(role.pod_spec, table=table, pool=pool)
        if pod.errors:
            raise UnclearError(f'role "{role.name}": {"; ".join(map(str, pod.errors))}')
        if not pod.none:
            found.extend(_demands(role, pod, _flavor(role, flavor_of)))
    return tuple(found)


def pinned(flavor: Obj) -> tuple[str, int | None]:
    """The accelerator key and the cards per node that a flavor's nodeLabels pin; no count when it pins none."""
    pins = flavor["spec"].get("nodeLabels") or {}
    akey = identity(pins, ACCELERATABLE_PREFIX)
    if akey is None:
        raise UnclearError(f"flavor {name_of(flavor)} pins no accelerator")
    count = pins.get(accelerator(akey, "count"))
    return akey, None if count is None else label_count(count) or UNREADABLE_COUNT


def counts_of(node: Obj) -> dict[str, int]:
    """Cards per model as the node's labels say; a count that cannot be read is left out, and so matches nothing."""
    return {akey: count for akey, text in _counts(labels_of(node).items()) if (count := label_count(text))}


def nodes_of_flavor(flavor: Obj, nodes: Iterable[Obj]) -> list[str]:
    """The nodes that a flavor selects."""
    pins = (flavor["spec"].get("nodeLabels") or {}).items()
    return [name_of(node) for node in nodes if pins <= labels_of(node).items()]


def _demands(role: Role, pod: PodDemand, flavor: Obj) -> Iterator[Demand]:
    akey, count = pinned(flavor)
    if role.nodes is None:
        yield Demand(role=role.name, pod=pod, pods=role.pods, akey=akey, card_count=count)
        return
    for node, pods in role.nodes.items():
        yield Demand(role=role.name, pod=pod, pods=pods, akey=akey, node=node, card_count=count)


def _flavor(role: Role, flavor_of: Callable[[str], Obj | None]) -> Obj:
    if len(role.flavors) != 1:
        listed = ", ".join(role.flavors) or "none"
        raise UnclearError(f'role "{role.name}" must have one flavor for its accelerator credits; assigned: {listed}')
    flavor = flavor_of(role.flavors[0])
    if flavor is None:
        raise UnclearError(f'role "{role.name}": flavor {role.flavors[0]} is gone')
    return flavor


def _counts(labels: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for key, value in labels:
        if key.startswith(ACCELERATABLE_PREFIX) and key.endswith(".count"):
            yield key.removeprefix(ACCELERATABLE_PREFIX).removesuffix(".count"), value
