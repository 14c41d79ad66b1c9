"""This node's ledger as its agent knows it: the detected cards, the Pods' records and the agent's own promises.

Rebuilt on demand and kept until one of the three changes, so that a hint, an allocation and the published status never
see different accounts. Nothing here waits or writes; watchers are told that something changed and read for themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from gpustack_ctl.accel.cards import Card, NodeCards, cards_of
from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.accel.ledger import Ledger, rebuild
from gpustack_ctl.agent.inventory import Inventory
from gpustack_ctl.agent.reservations import Reservations
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, annotations_of

log = structlog.get_logger()


class NodeLedger:
    """The account of one node. `pods` holds the Pods bound to it and no others."""

    def __init__(
        self,
        *,
        node_name: str,
        pods: Informer,
        reservations: Reservations,
        table: Manufacturers,
        release_terminated: bool = True,
    ) -> None:
        self.node_name = node_name
        self._pods = pods
        self._reservations = reservations
        self._table = table
        self._release_terminated = release_terminated
        self._inventory = Inventory()
        self._cards: tuple[Card, ...] = ()
        self._ledger: Ledger | None = None
        self._watchers: list[Callable[[], None]] = []
        reservations.on_change(lambda _: self.changed())
        pods.subscribe(self._pod_changed)

    @property
    def inventory(self) -> Inventory:
        return self._inventory

    @inventory.setter
    def inventory(self, found: Inventory) -> None:
        self._inventory = found
        self._cards = cards_of(found.spec())
        self.changed()

    @property
    def detected(self) -> tuple[Card, ...]:
        """The cards, as last detected."""
        return self._cards

    def on_change(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` whenever the account may read differently."""
        self._watchers.append(watcher)

    def changed(self) -> None:
        self._ledger = None
        for watcher in self._watchers:
            watcher()

    @property
    def current(self) -> Ledger:
        """The account now."""
        if self._ledger is None:
            self._ledger = rebuild(
                self._cards,
                self._pods.list(),
                table=self._table,
                release_terminated=self._release_terminated,
                reservations=self._reservations.for_ledger(),
            )
        return self._ledger

    @property
    def cards(self) -> NodeCards:
        """The account as a node's cards, for placement."""
        return self.current.on(self.node_name)

    def cards_for(self, pod: Obj, container: str) -> NodeCards:
        """The cards as one container of the Pod may see them.

        Its own holdings are left out, so that a retried allocation is not charged twice. So are those of the Pod's
        ordinary init containers: they have ended before it starts, and the kubelet hands it their very tokens.
        """
        uid = pod["metadata"]["uid"]
        cards = self.cards.without(uid, container)
        for name in _ordinary_init_containers(pod):
            cards = cards.without(uid, name)
        return cards

    def _pod_changed(self, old: Obj | None, new: Obj | None) -> None:
        if _charged(old) != _charged(new):
            self.changed()


def _charged(pod: Obj | None) -> tuple[object, ...] | None:
    """What of a Pod the account depends on."""
    if pod is None:
        return None
    return pod["metadata"].get("uid"), annotations_of(pod).get(ALLOCATED), (pod.get("status") or {}).get("phase")


def _ordinary_init_containers(pod: Obj) -> list[str]:
    containers = (pod.get("spec") or {}).get("initContainers") or ()
    return [container["name"] for container in containers if container.get("restartPolicy") != "Always"]
