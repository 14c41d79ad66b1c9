"""Events on the objects a user looks at: why a Pod was refused, why a Workload is held.

An Event is a courtesy. Telling one never waits and never fails the teller; what cannot be written is counted and let
go. The same thing told again is one Event with a count, written more and more rarely, so that a Workload that is
held for an hour costs the API server a handful of writes.
"""

import socket
from collections import OrderedDict
from dataclasses import dataclass, field
from time import monotonic, time_ns
from typing import Literal

import anyio
import structlog

from gpustack_ctl.kube import metrics
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import Forbidden, KubeError, NotFound, Unreachable
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import EVENTS
from gpustack_ctl.kube.times import micro_time

EventType = Literal["Normal", "Warning"]

NOTE_BYTES = 1024  # the API server refuses longer ones
REPEAT_FIRST_SECONDS = 10.0
REPEAT_CAP_SECONDS = 300.0
REMEMBERED = 2048  # different things told; the one told longest ago is forgotten first
BURST_PER_OBJECT = 25
REFILL_SECONDS = 60.0  # each gives an object one more
WRITE_PAUSE_SECONDS = 0.04  # at most 25 writes a second, whatever happens
RETRY_SECONDS = 5.0
FLUSH_SECONDS = 2.0

_log = structlog.get_logger()


@dataclass(slots=True)
class _Told:
    """One thing that was told of one object, and what the server knows of it."""

    event: Obj
    count: int = 1
    last: str = ""
    written: int = 0
    due: float = 0.0
    pause: float = 0.0


@dataclass(slots=True)
class _Allowance:
    """How many more different things may be told of one object."""

    left: float = BURST_PER_OBJECT
    at: float = field(default_factory=monotonic)

    def take(self) -> bool:
        now = monotonic()
        self.left = min(BURST_PER_OBJECT, self.left + (now - self.at) / REFILL_SECONDS)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Events:
    """Emit from anywhere on the event loop; `run` writes."""

    def __init__(self, kube: Kube, component: str) -> None:
        """`component` is the reporting controller's name, for instance ``gpustack-manager``."""
        self._kube = kube
        self._component = component
        self._instance = f"{component}-{socket.gethostname()}"[:128]
        self._told: OrderedDict[tuple[str, ...], _Told] = OrderedDict()
        self._unwritten: dict[tuple[str, ...], _Told] = {}
        self._allowances: OrderedDict[str, _Allowance] = OrderedDict()
        self._more = anyio.Event()
        self._forbidden = False

    def emit(
        self,
        obj: Obj,
        *,
        reason: str,
        message: str,
        action: str,
        type: EventType = "Normal",  # noqa: A002 — the field's name
    ) -> None:
        """Tell of `obj`, an object with apiVersion and kind or a reference to one: `reason` in one word, for machines,
        `message` for people, and the `action` that was taken or refused."""
        regarding = _reference(obj)
        note = _shortened(message)
        subject = regarding.get("uid") or f"{regarding['kind']}/{regarding.get('namespace', '')}/{regarding['name']}"
        key = (subject, type, reason, action, note)
        told = self._told.get(key)
        if told is None:
            if not self._allowed(subject):
                metrics.events_dropped.labels("rate").inc()
                return
            event = self._event(regarding, type=type, reason=reason, action=action, note=note)
            told = self._told[key] = _Told(event, last=event["eventTime"], pause=REPEAT_FIRST_SECONDS)
            if len(self._told) > REMEMBERED:
                forgotten, _ = self._told.popitem(last=False)
                if self._unwritten.pop(forgotten, None) is not None:
                    metrics.events_dropped.labels("full").inc()
        else:
            told.count += 1
            told.last = micro_time()
            self._told.move_to_end(key)
        self._unwritten[key] = told
        self._more.set()

    async def run(self) -> None:
        """Write what is told, until cancelled; then write what is left, within FLUSH_SECONDS."""
        try:
            while True:
                self._more = anyio.Event()
                await self._write_due(pause=WRITE_PAUSE_SECONDS)
                with anyio.move_on_after(self._next_due()):
                    await self._more.wait()
        finally:
            with anyio.move_on_after(FLUSH_SECONDS, shield=True):
                for told in self._unwritten.values():
                    told.due = 0
                await self._write_due(pause=0)

    async def _write_due(self, *, pause: float) -> None:
        for key, told in [*self._unwritten.items()]:
            if told.due > monotonic():
                continue
            if not await self._write(told):
                await anyio.sleep(RETRY_SECONDS)
                return
            if told.written == told.count and self._unwritten.get(key) is told:
                del self._unwritten[key]
            await anyio.sleep(pause)

    def _next_due(self) -> float | None:
        """Seconds until something is to be written again; None when nothing is."""
        dues = [told.due for told in self._unwritten.values()]
        return max(0.0, min(dues) - monotonic()) if dues else None

    async def _write(self, told: _Told) -> bool:
        """Bring the server up to date; False when it is not there to be told."""
        count = told.count
        try:
            await self._send(told, count)
        except Unreachable:
            return False
        except KubeError as error:
            metrics.events_dropped.labels("refused").inc()
            self._refused(error)
        told.written = count
        told.due = monotonic() + told.pause
        told.pause = min(told.pause * 2, REPEAT_CAP_SECONDS)
        return True

    async def _send(self, told: _Told, count: int) -> None:
        metadata = told.event["metadata"]
        if count > 1:
            told.event["series"] = {"count": count, "lastObservedTime": told.last}
        if told.written:
            patch = {"series": told.event["series"]}
            try:
                await self._kube.patch(EVENTS, metadata["name"], patch, namespace=metadata["namespace"])
            except NotFound:  # the server forgets events after an hour
                metadata["name"] = _event_name(told.event["regarding"])
            else:
                return
        await self._kube.create(EVENTS, told.event)

    def _refused(self, error: KubeError) -> None:
        """A namespace that is going refuses events as a matter of course; missing rights are worth one line."""
        log = _log.warning if isinstance(error, Forbidden) and not self._forbidden else _log.debug
        self._forbidden = self._forbidden or isinstance(error, Forbidden)
        log("an event was refused", error=str(error))

    def _allowed(self, subject: str) -> bool:
        allowance = self._allowances.setdefault(subject, _Allowance())
        self._allowances.move_to_end(subject)
        if len(self._allowances) > REMEMBERED:
            self._allowances.popitem(last=False)
        return allowance.take()

    def _event(self, regarding: Obj, *, type: EventType, reason: str, action: str, note: str) -> Obj:  # noqa: A002
        return {
            "metadata": {"name": _event_name(regarding), "namespace": regarding.get("namespace") or "default"},
            "eventTime": micro_time(),
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "action": action,
            "reason": reason,
            "regarding": regarding,
            "note": note,
            "type": type,
        }


def _reference(obj: Obj) -> Obj:
    metadata = obj.get("metadata", obj)
    reference = {"apiVersion": obj.get("apiVersion"), "kind": obj["kind"]}
    reference |= {field: metadata.get(field) for field in ("namespace", "name", "uid")}
    return {name: value for name, value in reference.items() if value}


def _event_name(regarding: Obj) -> str:
    return f"{str(regarding['name'])[:200].rstrip('.-')}.{time_ns():x}"


def _shortened(message: str) -> str:
    if len(message.encode()) <= NOTE_BYTES:
        return message
    return message.encode()[: NOTE_BYTES - 3].decode(errors="ignore") + "…"
