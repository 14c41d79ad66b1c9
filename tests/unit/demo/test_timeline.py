"""When each gate answered: each settled answer once, as often as a gate changes its mind, from a Pod's creation on."""

from typing import Any

import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.labels import ADMISSION_CHECK, PLACEMENT_PIN
from gpustack_ctl.accel.pins import Pin, format_pin
from gpustack_ctl.demo.timeline import PodRecord, Timeline
from gpustack_ctl.explain import Answer
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.reflector import Selection
from gpustack_ctl.kube.resources import PODS, WORKLOADS


class Watched:
    """A timeline on informers that this test fills, and a clock that it sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.changes = 0
        self.pods, self.workloads = Informer(Selection(PODS)), Informer(Selection(WORKLOADS))
        self._version = 0
        self.timeline = Timeline(
            pods=self.pods,
            workloads=self.workloads,
            table=manufacturers(),
            clock=lambda: self.now,
            changed=self._changed,
        )

    def see(self, informer: Informer, obj: Obj) -> None:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        informer.observe(obj)

    def _changed(self) -> None:
        self.changes += 1


@pytest.fixture
def watched() -> Watched:
    return Watched()


def pod(**status: Any) -> Obj:
    limits = {"nvidia.com/gpu": "1"}
    return {
        "metadata": {"name": "late", "namespace": "demo", "uid": "u", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending", **status},
    }


def workload(*, reserved: bool, state: str = "Pending", message: str = "", pin: Pin | None = None) -> Obj:
    return {
        "metadata": {
            "name": "pod-late",
            "namespace": "demo",
            "uid": "w",
            "ownerReferences": [{"uid": "u", "kind": "Pod", "name": "late"}],
            "annotations": {PLACEMENT_PIN: format_pin(pin)} if pin else {},
        },
        "spec": {"podSets": []},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": str(reserved)}],
            "admissionChecks": [{"name": ADMISSION_CHECK, "state": state, "message": message}],
        },
    }


def answers(record: PodRecord, gate: int) -> list[tuple[str, str]]:
    return [(seen.answer.answered, seen.answer.message) for seen in record.seen if seen.answer.gate == gate]


def test_seconds_are_counted_from_the_creation_of_the_pod(watched: Watched) -> None:
    record = watched.timeline.follow("late")
    watched.now += 1.25
    watched.see(watched.pods, pod())
    assert [(seen.answer.gate, seen.seconds) for seen in record.seen] == [(1, 1.25)]


def test_a_pod_nobody_follows_is_not_recorded(watched: Watched) -> None:
    watched.see(watched.pods, pod())
    assert watched.timeline.records == {}
    assert watched.changes == 0


def test_an_answer_is_noted_once_however_often_it_is_seen(watched: Watched) -> None:
    record = watched.timeline.follow("late")
    for _ in range(3):
        watched.see(watched.pods, pod())
    assert len(answers(record, 1)) == 1


def test_a_gate_that_changes_its_mind_is_noted_twice(watched: Watched) -> None:
    record = watched.timeline.follow("late")
    watched.see(watched.pods, pod())
    watched.see(watched.workloads, workload(reserved=True, state="Retry", message="no room"))
    watched.now += 2
    watched.see(watched.workloads, workload(reserved=True, state="Ready", message="it fits"))
    assert answers(record, 3) == [("held", "no room"), ("passed", "it fits")]
    assert record.answered(3, "passed") is record.seen[-1]


def test_a_workload_that_came_before_its_pod_was_seen_is_found(watched: Watched) -> None:
    record = watched.timeline.follow("late")
    watched.see(watched.workloads, workload(reserved=True))
    watched.see(watched.pods, pod())
    assert [answered for answered, _ in answers(record, 2)] == ["passed"]


def test_a_workload_that_waits_under_a_pin_is_held_in_the_words_of_the_pin(watched: Watched) -> None:
    record = watched.timeline.follow("late")
    watched.see(watched.pods, pod())
    watched.see(watched.workloads, workload(reserved=False, pin=Pin(why="node n: nearest miss 40%")))
    assert answers(record, 3) == [("held", "node n: nearest miss 40%")]


def test_a_pod_stands_at_the_first_gate_that_has_not_let_it_pass_in_the_words_of_that_gate(watched: Watched) -> None:
    record = watched.timeline.follow("late")
    assert record.stands_at is None
    watched.see(watched.pods, pod())
    waits = workload(reserved=False)
    waits["status"]["conditions"][0]["message"] = "insufficient quota"
    watched.see(watched.workloads, waits)
    assert record.stands_at is not None
    assert (record.stands_at.gate, record.stands_at.answered) == (2, "waiting")
    assert record.stands_at.message == "insufficient quota"
    assert record.answered(2, "waiting") is None


def test_a_deleted_pod_says_so_and_is_read_no_more(watched: Watched) -> None:
    record = watched.timeline.follow("late")
    watched.see(watched.pods, pod())
    before = len(record.seen)
    watched.pods.replace([], 99)
    assert record.phase == "Deleted"
    watched.see(watched.workloads, workload(reserved=True))
    assert len(record.seen) == before


def test_a_refusal_at_creation_is_noted_by_hand(watched: Watched) -> None:
    record = watched.timeline.follow("wrong")
    watched.timeline.note(record, Answer(1, "", "refused", "write 1"))
    assert record.answered(1, "refused") is not None
    assert watched.changes == 1
