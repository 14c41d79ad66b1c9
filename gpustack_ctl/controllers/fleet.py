"""The cards of nodes as gate 3 must see them: what is recorded, and what is promised and not recorded yet.

A Workload that was told Ready holds its accelerators long before its Pods do: Kueue has to admit it, the scheduler to
bind its Pods and the kubelet to start them, and only then does the node agent record a Pod. So the ledger of a node is
rebuilt from one read of the Pods bound to it, asked of the API server and not of our own cache, and then every Workload
that holds a Ready there takes what its Pods have not taken yet. Ledger and held Pods come from the same read: no Pod is
counted twice, and none is missed.

Pods that ask for a device outside Kueue, and have none recorded, are counted as well: the kubelet has accepted them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import anyio

from gpustack_ctl.accel.cards import Card, NodeCards, cards_of
from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.feasibility import Demand
from gpustack_ctl.accel.inflight import Inflight, occupy
from gpustack_ctl.accel.labels import HOSTNAME, KUEUE_PODSET, KUEUE_WORKLOAD, PLANNED
from gpustack_ctl.accel.ledger import Ledger, is_finished, is_held, pod_key, rebuild
from gpustack_ctl.accel.plans import PodPlan, open_entries, parse_plan
from gpustack_ctl.accel.pools import Pool, pool_of
from gpustack_ctl.accel.records import readable_record
from gpustack_ctl.accel.requests import read_pod
from gpustack_ctl.controllers.demands import UnclearError, counts_of, demands_of
from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.controllers.workloads import check_state, holds_accelerators, is_coming, nodes_of
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj, annotations_of, key_of, labels_of, name_of, namespace_of
from gpustack_ctl.kube.resources import PODS


class Fleet:
    """The cards of any nodes, as they will be once every promise is kept."""

    def __init__(self, *, kube: Kube, sources: Sources, table: Manufacturers, release_terminated: bool = True) -> None:
        self._kube = kube
        self._sources = sources
        self._table = table
        self._release_terminated = release_terminated
        sources.workloads.add_index("holding", _holding)
        sources.workloads.add_index("coming", _coming)
        sources.pods.add_index("workload", _workload_of)
        sources.pods.add_index("node", _node_of)

    async def cards(self, nodes: Iterable[str], *, judged: str) -> dict[str, NodeCards]:
        """The cards of those nodes that exist, for the Workload `judged`, whose own promises do not count."""
        present = {name: node for name in nodes if (node := self._sources.nodes.get(name)) is not None}
        bound: dict[str, list[Obj]] = {}
        async with anyio.create_task_group() as tasks:
            for name in present:
                tasks.start_soon(self._read_pods, name, bound)
        recorded: dict[str, NodeCards] = {}
        promised: list[Inflight] = []
        for name, node in present.items():
            ledger = self._ledger(name, bound[name])
            recorded[name] = ledger.on(name, counts_of(node))
            promised.extend(self._promised(name, bound[name], ledger, judged=judged))
        return occupy(recorded, promised)

    def glance(self, node: Obj) -> NodeCards:
        """One node by the caches alone, and once those that Kueue has just placed there are let in as well.

        A guess at what is left for others, which a verdict will check: what was let go towards a node is no longer
        waiting when Kueue has placed it, and holds nothing before it is judged.
        """
        name = name_of(node)
        bound = self._sources.pods.by_index("node", name)
        ledger = self._ledger(name, bound)
        promised = [*self._promised(name, bound, ledger, judged="")]
        for workload in self._sources.workloads.by_index("coming", name):
            promised.extend(self._promises(workload, name, bound))
        return occupy({name: ledger.on(name, counts_of(node))}, promised)[name]

    def demands(self, workload: Obj) -> tuple[Demand, ...]:
        """What a placed Workload wants of which cards, by the pool whose queue admitted it. Raises UnclearError."""
        queue = (workload["status"].get("admission") or {}).get("clusterQueue", "")
        instance_type = self._sources.instance_types.get(queue)
        pool = pool_of(instance_type, table=self._table) if instance_type is not None else None
        return demands_of(workload, pool=pool, flavor_of=self._sources.flavors.get, table=self._table)

    def holders(self, node: str) -> list[Obj]:
        """The Workloads that hold accelerators on the node, or were told that they will."""
        return self._sources.workloads.by_index("holding", node)

    async def _read_pods(self, node: str, into: dict[str, list[Obj]]) -> None:
        """One read, at least as new as what the watch has told us.

        Nothing newer is needed: a record that it does not show yet belongs to a Pod that still counts as promised.
        """
        version = str(self._sources.pods.version)
        into[node] = await self._kube.list(PODS, field_selector=f"spec.nodeName={node}", resource_version=version)

    def _ledger(self, node: str, bound: Sequence[Obj]) -> Ledger:
        cards = cards_of((self._sources.devices.get(node) or {}).get("spec") or {})
        return rebuild(cards, bound, table=self._table, release_terminated=self._release_terminated)

    def _promised(self, node: str, bound: Sequence[Obj], ledger: Ledger, *, judged: str) -> Iterator[Inflight]:
        """What will still be taken on the node: by Workloads that hold a Ready, and by Pods outside of any."""
        holders = {key_of(each): each for each in self.holders(node)}
        for key, holder in holders.items():
            if key != judged:
                yield from self._promises(holder, node, bound)
        unrecorded = {each.pod for each in ledger.unrecorded}
        for pod in bound:
            if pod_key(pod) in unrecorded and holders.keys().isdisjoint(_workload_of(pod)):
                yield from self._stranger(pod, node, ledger)

    def _promises(self, workload: Obj, node: str, bound: Sequence[Obj]) -> Iterator[Inflight]:
        """What a Workload will still take on the node, role by role: its Pods there minus those recorded.

        A finished Pod has had its turn. But where its Workload has already made a replacement, that one is to come,
        whatever the sum says.
        """
        pods = self._pods_of(workload, node, bound)
        for demand in self._promised_to(workload):
            if demand.node != node:
                continue
            mine = [pod for pod in pods if labels_of(pod).get(KUEUE_PODSET, demand.role) == demand.role]
            held = [pod for pod in mine if is_held(pod, self._table)]
            waiting = sum(not is_finished(pod) and not is_held(pod, self._table) for pod in mine)
            coming = max(demand.pods - len(held), waiting)
            if coming > 0:
                plan = _open_plan(workload, demand.role, node, held)
                yield Inflight(key_of(workload), replace(demand, pods=coming), plan)

    def _pods_of(self, workload: Obj, node: str, bound: Sequence[Obj]) -> list[Obj]:
        """The Workload's Pods on the node, and those that are made for it and not bound yet.

        Until Kueue pins a Pod to its node, where a Workload has several, nobody knows whose it will be.
        """
        key = key_of(workload)
        only = nodes_of(workload) == {node}
        known = (pod for pod in self._sources.pods.by_index("workload", key) if not pod["spec"].get("nodeName"))
        unbound = (pod for pod in known if _destined(pod) == node or (only and not _destined(pod)))
        return [*(pod for pod in bound if key in _workload_of(pod)), *unbound]

    def _promised_to(self, workload: Obj) -> tuple[Demand, ...]:
        """The demands of a Workload that was told Ready; one that has become unclear since has none to be read."""
        try:
            return self.demands(workload)
        except UnclearError:
            return ()

    def _stranger(self, pod: Obj, node: str, ledger: Ledger) -> Iterator[Inflight]:
        """A Pod that nobody promised anything: it may take any model of its manufacturer, so it counts on each."""
        for akey, card in {state.card.akey: state.card for state in ledger.states}.items():
            demand = read_pod(pod["spec"], table=self._table, pool=_pool_of_card(card))
            if demand.manufacturer == card.manufacturer:
                yield Inflight(key_of(pod), Demand(role="", pod=demand, pods=1, akey=akey, node=node))


def _holding(workload: Obj) -> Iterable[str]:
    return nodes_of(workload) if holds_accelerators(workload) else ()


def _coming(workload: Obj) -> Iterable[str]:
    return nodes_of(workload) if is_coming(workload) else ()


def _node_of(pod: Obj) -> tuple[str, ...]:
    node = pod["spec"].get("nodeName")
    return (node,) if node else ()


def _workload_of(pod: Obj) -> tuple[str, ...]:
    name = annotations_of(pod).get(KUEUE_WORKLOAD)
    return (f"{namespace_of(pod)}/{name}",) if name else ()


def _destined(pod: Obj) -> str:
    """The node that an unbound Pod is pinned to, as Kueue pins the Pods that it lets go."""
    return str((pod["spec"].get("nodeSelector") or {}).get(HOSTNAME, ""))


def _open_plan(workload: Obj, role: str, node: str, held: Iterable[Obj]) -> tuple[PodPlan, ...]:
    """What of the role's plan on the node nobody has taken yet."""
    updates = (check_state(workload) or {}).get("podSetUpdates") or ()
    texts = [(update.get("annotations") or {}).get(PLANNED) for update in updates if update.get("name") == role]
    entries = parse_plan(texts[0], node) if texts and texts[0] else ()
    return open_entries(entries, map(readable_record, held))


def _pool_of_card(card: Card) -> Pool:
    return Pool(
        name=card.akey,
        akey=card.akey,
        manufacturer=card.manufacturer,
        memory_mib=card.memory_mib or None,
        profiles={profile.name: profile.memory_mib for profile in card.profiles},
    )
