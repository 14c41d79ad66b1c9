"""When each gate answered: a recorder over the informers' changes of Pods and Workloads.

The answers are read from the objects (`explain`); the recorder adds only the moment it first saw each, since Kubernetes
keeps its own times to the second. A gate that changes its mind (held, then passed) is in the record twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.controllers.pins import pin_of
from gpustack_ctl.explain import Answer, explain_pod
from gpustack_ctl.explain.subjects import workload_of
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, is_true, name_of

Clock = Callable[[], float]

_SETTLED = ("passed", "refused", "held")


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer and how many seconds after the Pod's creation it was there to see."""

    answer: Answer
    seconds: float


@dataclass(slots=True)
class PodRecord:
    """Everything noted about one Pod of the story."""

    name: str
    created: float
    phase: str = "Pending"
    seen: list[Seen] = field(default_factory=list)
    latest: list[Answer] = field(default_factory=list)
    pod: Obj | None = None
    workload: Obj | None = None

    def answered(self, gate: int, *answers: str) -> Seen | None:
        """The first time that `gate` gave one of `answers`."""
        return next((s for s in self.seen if s.answer.gate == gate and s.answer.answered in answers), None)

    @property
    def stands_at(self) -> Answer | None:
        """The gate that has not let it pass yet, as it answers now; None when all have, or none was asked."""
        return next((answer for answer in self.latest if answer.answered != "passed"), None)


class Timeline:
    """Notes every settled answer of the Pods it was told to follow."""

    def __init__(
        self, *, pods: Informer, workloads: Informer, table: Manufacturers, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self._table, self._clock, self._changed = table, clock, changed
        self._pods, self._workloads = pods, workloads
        self.records: dict[str, PodRecord] = {}
        pods.subscribe(self._on_pod)
        workloads.subscribe(self._on_workload)

    def follow(self, name: str) -> PodRecord:
        """Start the record of a Pod that is about to be created; its clock starts now."""
        self.records[name] = record = PodRecord(name, created=self._clock())
        return record

    def note(self, record: PodRecord, answer: Answer) -> None:
        """Add an answer unless the gate's last one was the same, message and all."""
        last = next((s.answer for s in reversed(record.seen) if s.answer.gate == answer.gate), None)
        if last is not None and (last.answered, last.message) == (answer.answered, answer.message):
            return
        record.seen.append(Seen(answer, round(self._clock() - record.created, 3)))
        self._changed()

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        pod = new or old
        record = self.records.get(name_of(pod)) if pod else None
        if record is None:
            return
        if new is None:
            record.phase = "Deleted"
        else:
            record.pod = new
            record.phase = (new.get("status") or {}).get("phase", "Pending")
            record.workload = record.workload or workload_of(new, self._workloads.list())
        self._read(record)
        self._changed()

    def _on_workload(self, _: Obj | None, new: Obj | None) -> None:
        for record in self.records.values():
            if new and record.pod and workload_of(record.pod, [new]):
                record.workload = new
                self._read(record)

    def _read(self, record: PodRecord) -> None:
        if record.pod is None or record.phase == "Deleted":
            return
        record.latest = explain_pod(record.pod, record.workload, table=self._table, told=_told(record.workload))
        for answer in record.latest:
            if answer.answered in _SETTLED:
                self.note(record, answer)


def _told(workload: Obj | None) -> str:
    """Why gate 3 holds a Workload that waits without quota: its check is reset by then, and the pin tells it."""
    pin = pin_of(workload) if workload is not None else None
    return pin.why if pin is not None and workload is not None and not is_true(workload, "QuotaReserved") else ""
