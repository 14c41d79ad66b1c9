"""The rooms of a pool: its nodes with their cards and countable resources, kept from one look to the next.

To choose where a Workload may wait for is to look at every node of its pool, at every change of any of them. So a node
is worked out once and kept until something on it changes. It is all read from the caches: a pin that is a moment behind
costs a round, because gate 3 judges by what is bound, whatever the pin says.
"""

from collections.abc import Iterable, Mapping

import anyio.lowlevel

from gpustack_ctl.accel.parking import Room
from gpustack_ctl.accel.units import QuantityError, quantity
from gpustack_ctl.controllers.cpu_requests import millicores
from gpustack_ctl.controllers.demands import nodes_of_flavor
from gpustack_ctl.controllers.fleet import Fleet
from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.controllers.workloads import roles_of
from gpustack_ctl.kube.objects import Obj

_AT_ONCE = 16


class Rooms:
    """Rooms by node name."""

    def __init__(self, *, sources: Sources, fleet: Fleet) -> None:
        self._sources = sources
        self._fleet = fleet
        self._rooms: dict[str, Room] = {}
        self._members: dict[str, tuple[str, ...]] = {}

    def of_queue(self, name: str) -> dict[str, Room]:
        """The nodes that any flavor of the ClusterQueue selects."""
        found = ((node, self._room(node)) for node in self._nodes_of(name))
        return {node: room for node, room in found if room is not None}

    async def work_out(self, name: str) -> None:
        """Work out what is not known of the ClusterQueue's nodes, and let others run in between.

        The first look at a large pool takes seconds; webhooks of this process must not wait for it.
        """
        for at, node in enumerate(self._nodes_of(name)):
            if at % _AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
            self._room(node)

    def changed(self, *nodes: str) -> None:
        """Something on these nodes is not as it was."""
        for node in nodes:
            self._rooms.pop(node, None)

    def regrouped(self) -> None:
        """A node, a flavor or a queue came, went or is labelled differently."""
        self._members.clear()

    def _nodes_of(self, name: str) -> tuple[str, ...]:
        if name not in self._members:
            self._members[name] = tuple(self._selected(name))
        return self._members[name]

    def _selected(self, name: str) -> Iterable[str]:
        queue = self._sources.cluster_queues.get(name)
        groups = ((queue or {}).get("spec") or {}).get("resourceGroups") or ()
        names = {flavor["name"] for group in groups for flavor in group.get("flavors") or ()}
        flavors = (self._sources.flavors.get(flavor) for flavor in sorted(names))
        nodes = self._sources.nodes.list()
        return dict.fromkeys(node for flavor in flavors if flavor for node in nodes_of_flavor(flavor, nodes))

    def _room(self, name: str) -> Room | None:
        node = self._sources.nodes.get(name)
        if node is None:
            return None
        if name not in self._rooms:
            whole = amounts((node.get("status") or {}).get("allocatable") or {})
            self._rooms[name] = Room(self._fleet.glance(node), self._free(name, whole), whole)
        return self._rooms[name]

    def _free(self, node: str, whole: Mapping[str, int]) -> dict[str, int]:
        """What the Workloads placed here leave. Topology-aware scheduling counts more than these, but never less."""
        free = dict(whole)
        for workload in self._fleet.holders(node):
            for role in roles_of(workload):
                pods = (role.nodes or {}).get(node, 0)
                for key, amount in requests_of(role.pod_spec).items() if pods else ():
                    free[key] = free.get(key, 0) - amount * pods
        return free


def requests_of(pod_spec: Obj) -> dict[str, int]:
    """What one Pod's containers take together, at least."""
    total: dict[str, int] = {}
    for container in pod_spec.get("containers") or ():
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for key, amount in amounts(asked).items():
            total[key] = total.get(key, 0) + amount
    return {key: amount for key, amount in total.items() if amount > 0}


def amounts(quantities: Mapping[str, str]) -> dict[str, int]:
    """Millicores of CPU and whole numbers of all else; what is no whole number bounds nothing and is left out."""
    found: dict[str, int] = {}
    for key, text in quantities.items():
        try:
            found[key] = millicores(text) if key == "cpu" else quantity(text)
        except QuantityError:
            continue
    return found
