"""Gate 2: the pools, their flavors, and the credits that Kueue counts.

Pools and flavors are planned by the same functions that plan a cluster's: nodes of one shape are a flavor, flavors of
one model a pool, and the quota of a flavor is its cards in credits. The order of a pool's flavors is the order in which
they are tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpustack_ctl.accel.cards import Card
from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.features import AcceleratorFacts, NodeFacts
from gpustack_ctl.accel.flavors import FlavorSettings, plan_flavors, pool_has_flavor
from gpustack_ctl.accel.labels import accelerator
from gpustack_ctl.accel.naming import GENERIC, queue_name
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.profiles import TopologyProfile
from gpustack_ctl.accel.queues import plan_groups

_OS, _ARCH = "linux", "amd64"


@dataclass(slots=True, eq=False)
class Flavor:
    """Nodes of one shape: what they grant in credits, and what of that is reserved."""

    name: str
    nominal: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        """Credits that can still be reserved; none while more is reserved than there is."""
        return max(self.nominal - self.reserved, 0)


@dataclass(slots=True, eq=False)
class Queue:
    """A pool's ClusterQueue: its flavors in the order in which they are tried, or why it has none."""

    name: str
    flavors: list[Flavor] = field(default_factory=list)
    refusal: str = ""


class Quota:
    """The queues by accelerator key, and each node's flavor in them."""

    def __init__(self, nodes: Mapping[str, Sequence[Card]], table: Manufacturers) -> None:
        self._table = table
        self._flavors: dict[tuple[str, int], Flavor] = {}
        self.queues: dict[str, Queue] = {}
        self.plan(nodes)

    def plan(self, nodes: Mapping[str, Sequence[Card]]) -> None:
        """Set the quotas to those of the nodes' cards: at the start, and when a node has gone."""
        facts = [_facts(name, cards) for name, cards in nodes.items()]
        planned = plan_flavors(facts, FlavorSettings(mixed_on_node=False))
        for akey in {*self.queues, *(each.akey for node in facts for each in node.accelerators)}:
            queue = self.queues.setdefault(akey, Queue(_queue_name(akey)))
            for flavor in queue.flavors:
                flavor.nominal = 0
            if queue.name in planned.instance_types:
                instance_type = planned.instance_types[queue.name]
                own = [flavor for flavor in planned.flavors.values() if pool_has_flavor(instance_type, flavor)]
                self._fill(queue, akey, own)

    def flavor_of(self, akey: str, count: int) -> Flavor | None:
        """The flavor of nodes with so many cards of the model; None where the queue could not take its flavors."""
        return self._flavors.get((akey, count))

    def _fill(self, queue: Queue, akey: str, flavors: Sequence[Mapping[str, Any]]) -> None:
        maker = self._table.of_akey(akey)
        plan = plan_groups(flavors, manufacturer=maker.key if maker else None, table=self._table)
        queue.refusal = plan.refusal or ""
        labels = {flavor["metadata"]["name"]: flavor["metadata"]["labels"] for flavor in flavors}
        queue.flavors = []
        for row in (row for group in plan.groups for row in group["flavors"]):
            count = int(labels[row["name"]][accelerator(akey, "count")])
            flavor = self._flavors.setdefault((akey, count), Flavor(row["name"]))
            flavor.nominal = int(row["resources"][0]["nominalQuota"])
            queue.flavors.append(flavor)


def pools_of(kinds: Iterable[Sequence[Card]], table: Manufacturers) -> dict[str, Pool]:
    """The pools that requests are read by: memory and partitions of each model, as its InstanceType says."""
    found: dict[str, Pool] = {}
    for cards in kinds:
        for card in cards:
            before = found.get(card.akey)
            profiles = {**(before.profiles or {} if before else {}), **{p.name: p.memory_mib for p in card.profiles}}
            maker = table.of_akey(card.akey)
            memory = before.memory_mib if before else card.memory_mib
            found[card.akey] = Pool(_queue_name(card.akey), card.akey, maker.key if maker else None, memory, profiles)
    return found


def _queue_name(akey: str) -> str:
    return queue_name(gkey=GENERIC, akey=akey, os=_OS, arch=_ARCH)


def _facts(name: str, cards: Sequence[Card]) -> NodeFacts:
    counts: dict[str, int] = {}
    for card in cards:
        counts[card.akey] = counts.get(card.akey, 0) + 1
    accelerators = tuple(AcceleratorFacts(akey, count) for akey, count in sorted(counts.items()))
    return NodeFacts(name, _OS, _ARCH, TopologyProfile().value, GENERIC, 1, accelerators=accelerators)
