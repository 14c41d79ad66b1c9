"""Reservations: what was promised to each container of this node, from the moment of the promise until its Pod is gone.

A promise is made per resource name, because the kubelet asks that way; the ledger and the records speak per container.

The Pods' own records say the same a little later; where both speak, the reservation is right, because this is where the
record comes from. Every change is in the journal before it is here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.accel.ledger import Reservation
from gpustack_ctl.accel.records import Entry, RecordError, format_record, parse_record
from gpustack_ctl.agent import metrics
from gpustack_ctl.agent.journal import Journal

log = structlog.get_logger()

#: The journal is rewritten once it is larger than this and mostly history.
_COMPACT_AT = 256 * 1024


class PromiseKey(NamedTuple):
    """What a promise is about: the kubelet asks once per resource name of a container."""

    uid: str
    container: str
    resource: str


@dataclass(frozen=True, slots=True)
class Promise:
    """One container's cards by one resource name, and the tokens by which the kubelet knows them.

    `entries` is empty for what takes nothing from a card: a look at it.
    """

    pod: PodKey
    container: str
    resource: str
    tokens: tuple[str, ...]
    entries: tuple[Entry, ...]

    @property
    def key(self) -> PromiseKey:
        return PromiseKey(self.pod.uid, self.container, self.resource)


class Reservations:
    """All promises. Writers hold the node's lock."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._promises: dict[PromiseKey, Promise] = {}
        self._watchers: list[Callable[[PodKey], None]] = []
        metrics.promises.set_function(self._promises.__len__)

    def on_change(self, watcher: Callable[[PodKey], None]) -> None:
        """Call `watcher` with the Pod after every change to what it was promised."""
        self._watchers.append(watcher)

    async def load(self) -> None:
        """Take up what a former process promised, and start the journal afresh with that alone."""
        for document in self._journal.read():
            self._replay(document)
        await self._compact()
        for pod in {promise.pod for promise in self}:
            self._changed(pod)

    def __iter__(self) -> Iterator[Promise]:
        return iter(tuple(self._promises.values()))

    def __contains__(self, key: PromiseKey) -> bool:
        return key in self._promises

    def get(self, key: PromiseKey) -> Promise | None:
        return self._promises.get(key)

    def tokens(self, resource: str) -> frozenset[str]:
        """The tokens of that resource that containers have."""
        mine = (promise.tokens for promise in self._promises.values() if promise.resource == resource)
        return frozenset(itertools.chain.from_iterable(mine))

    def record(self, uid: str) -> dict[str, tuple[Entry, ...]]:
        """What the Pod's allocation record should say, as far as it was promised here."""
        record: dict[str, tuple[Entry, ...]] = {}
        for promise in self._promises.values():
            if promise.pod.uid == uid and promise.entries:
                record[promise.container] = record.get(promise.container, ()) + promise.entries
        return record

    def for_ledger(self) -> list[Reservation]:
        """Every container's promises as the ledger takes them."""
        merged: dict[tuple[PodKey, str], tuple[Entry, ...]] = {}
        for promise in self._promises.values():
            if promise.entries:
                place = (promise.pod, promise.container)
                merged[place] = merged.get(place, ()) + promise.entries
        return [Reservation(pod, container, entries) for (pod, container), entries in merged.items()]

    def add(self, promise: Promise) -> None:
        """Keep the promise, in the journal first. Raises JournalError, and nothing is then promised.

        It must not be spoken of before `flush` has returned.
        """
        self._journal.append({"promise": _written(promise)})
        self._promises[promise.key] = promise
        self._changed(promise.pod)

    async def flush(self) -> None:
        """Return once every promise is on the disk. Raises JournalError."""
        await self._journal.flush()

    async def drop(self, keys: Iterable[PromiseKey]) -> None:
        """Forget promises. Raises JournalError."""
        for key in keys:
            if key not in self._promises:
                continue
            self._journal.append({"release": list(key)})
            self._changed(self._promises.pop(key).pod)
        if self._journal.size > _COMPACT_AT:
            await self._compact()

    def of_pod(self, uid: str) -> list[PromiseKey]:
        return [key for key in self._promises if key.uid == uid]

    async def _compact(self) -> None:
        await self._journal.rewrite({"promise": _written(promise)} for promise in self._promises.values())

    def _replay(self, document: Mapping[str, Any]) -> None:
        try:
            if "release" in document:
                self._promises.pop(PromiseKey(*document["release"]), None)
                return
            promise = _read(document["promise"])
        except (KeyError, TypeError, RecordError) as error:
            log.warning("journal entry not understood, ignored", error=str(error))
            return
        self._promises[promise.key] = promise

    def _changed(self, pod: PodKey) -> None:
        for watcher in self._watchers:
            watcher(pod)


def _written(promise: Promise) -> dict[str, Any]:
    return {
        "namespace": promise.pod.namespace,
        "pod": promise.pod.name,
        "uid": promise.pod.uid,
        "container": promise.container,
        "resource": promise.resource,
        "tokens": list(promise.tokens),
        "record": format_record({promise.container: promise.entries}),
    }


def _read(written: Mapping[str, Any]) -> Promise:
    container = written["container"]
    return Promise(
        pod=PodKey(written["namespace"], written["pod"], written["uid"]),
        container=container,
        resource=written["resource"],
        tokens=tuple(written["tokens"]),
        entries=parse_record(written["record"]).get(container, ()),
    )
