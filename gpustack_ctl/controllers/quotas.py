"""What a ClusterQueue has left, flavor by flavor: its nominal quota less what Kueue has reserved of it.

Both figures are the queue's own. One that cannot be read is no quota.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpustack_ctl.accel.units import QuantityError, quantity
from gpustack_ctl.kube.objects import Obj


class Quota(NamedTuple):
    """One resource of one flavor; `left` is what nobody has reserved."""

    flavor: str
    resource: str
    nominal: int
    left: int


def quotas_of(queue: Obj) -> Iterator[Quota]:
    """The quotas of a queue, in the order in which Kueue tries its flavors."""
    reserved = dict(_amounts(_reserved(queue), "total"))
    for (flavor, resource), nominal in _amounts(_planned(queue), "nominalQuota"):
        yield Quota(flavor, resource, nominal, max(nominal - reserved.get((flavor, resource), 0), 0))


def _planned(queue: Obj) -> Iterator[Obj]:
    for group in queue["spec"].get("resourceGroups") or ():
        yield from group["flavors"]


def _reserved(queue: Obj) -> Iterable[Obj]:
    return (queue.get("status") or {}).get("flavorsReservation") or ()


def _amounts(flavors: Iterable[Obj], field: str) -> Iterator[tuple[tuple[str, str], int]]:
    for flavor in flavors:
        for resource in flavor.get("resources") or ():
            try:
                yield (flavor["name"], resource["name"]), quantity(resource.get(field, "0"))
            except QuantityError:
                continue
