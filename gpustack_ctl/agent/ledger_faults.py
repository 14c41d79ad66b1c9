"""What is wrong with the sources of this node's account, said where it will be seen, and once.

The account itself errs on the safe side (a record that cannot be read holds every card that it could name), and that
must not stay silent: it looks like a full node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import structlog

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.accel.ledger import Ledger
from gpustack_ctl.agent import metrics
from gpustack_ctl.kube.events import Events
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj

log = structlog.get_logger()


class Fault(NamedTuple):
    """One thing wrong: a reason in one word, and what it means in words. `pod` is the Pod it is about, if it is one."""

    reason: str
    message: str
    pod: PodKey | None = None


class LedgerFaults:
    """Tells of faults when they appear: a log line each, and an event on the Node and the Pod."""

    def __init__(self, *, pods: Informer, events: Events, node: Obj) -> None:
        self._pods = pods
        self._events = events
        self._node = node
        self._told: frozenset[Fault] = frozenset()

    def look(self, ledger: Ledger) -> None:
        """Compare the account's faults with those told of already."""
        metrics.unreadable.set(len(ledger.unreadable))
        found = frozenset(self._faults(ledger))
        for fault in sorted(found - self._told, key=str):
            self._tell(fault)
        self._told = found

    def _faults(self, ledger: Ledger) -> Iterator[Fault]:
        for record in ledger.unreadable:
            cards = f"every card of {' and '.join(record.manufacturers)} on this node counts as held"
            yield Fault(
                "RecordUnreadable",
                f"the allocation record {record.reason}; until it is written anew, {cards}",
                record.pod,
            )
        for missing in ledger.unrecorded:
            if self._runs(missing.pod):
                names = ", ".join(missing.containers)
                yield Fault("RecordMissing", f"runs with devices that nothing records: {names}", missing.pod)
        for card in ledger.overcharged:
            yield Fault("CardOvercharged", f"{card.card}: {card.reason}")
        for stray in ledger.strays:
            yield Fault(
                "CardUnknown", f"the record of {stray.container} names {stray.card}, which is not here", stray.pod
            )

    def _runs(self, pod: PodKey) -> bool:
        """Past its admission: a Pod that is being admitted is about to be recorded."""
        found = self._pods.get(f"{pod.namespace}/{pod.name}")
        return found is not None and (found.get("status") or {}).get("phase") == "Running"

    def _tell(self, fault: Fault) -> None:
        about = f"{fault.pod}: {fault.message}" if fault.pod else fault.message
        log.warning("account of this node", reason=fault.reason, message=about)
        self._emit(self._node, fault.reason, about)
        if fault.pod is not None:
            namespace, name, uid = fault.pod
            metadata = {"namespace": namespace, "name": name, "uid": uid}
            self._emit({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}, fault.reason, fault.message)

    def _emit(self, subject: Obj, reason: str, message: str) -> None:
        self._events.emit(subject, type="Warning", reason=reason, action="Accounting", message=message)
