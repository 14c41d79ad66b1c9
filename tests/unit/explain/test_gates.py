"""Each gate's answer, read back from the objects it left it in."""

from typing import Any

import pytest

from gpustack_ctl.accel.families import Mode, manufacturers
from gpustack_ctl.accel.labels import ALLOCATED, PLACEMENT_PIN
from gpustack_ctl.accel.pins import Pin, format_pin
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.records import Entry, format_record
from gpustack_ctl.accel.units import M
from gpustack_ctl.explain.answers import Answer, together
from gpustack_ctl.explain.check import Outlook, check_of
from gpustack_ctl.explain.credits import Place, credits_of
from gpustack_ctl.explain.devices import cards_of_pod, settled
from gpustack_ctl.explain.gates import explain_pod, explain_workload
from gpustack_ctl.explain.scheduling import scheduled
from gpustack_ctl.explain.webhook import asked_at_creation, requested
from tests.unit.explain.objects import FLAVOR, HALF, QUEUE, cluster_queue, local_queue, pod, workload

TABLE = manufacturers()
POOL = Pool(name=QUEUE, akey="nvidia-a10g", manufacturer="nvidia", memory_mib=24576, profiles={})
WHOLE = {"nvidia.com/gpu": "1"}


def record(*entries: Entry, container: str = "main") -> dict[str, str]:
    return {ALLOCATED: format_record({container: entries})}


def entry(index: int, mode: Mode = Mode.SLICED, units: int = M // 2, profile: str = "") -> Entry:
    return Entry("a10g", "nvidia", f"GPU-{index}", index, mode, units, profile)


# Gate 1


def test_what_the_webhook_folded_is_its_answer_and_the_rest_is_what_it_was_asked() -> None:
    answer = asked_at_creation(pod(), TABLE, pool=POOL)
    assert answer.answered == "passed"
    assert answer.message == "folded to nvidia.com/gpu.sliced.units=800000"
    assert "nvidia.com/gpu.sliced.memory-percentage=50" in answer.saw and "units" not in answer.saw


def test_a_pod_without_the_label_was_not_asked_about() -> None:
    answer = asked_at_creation(pod(queue=""), TABLE, pool=POOL)
    assert (answer.answered, answer.message) == (
        "unknown",
        "not asked: the Pod has no label kueue.x-k8s.io/queue-name",
    )


def test_a_pod_without_units_was_made_while_the_webhook_was_away() -> None:
    answer = asked_at_creation(pod(limits=HALF), TABLE, pool=POOL)
    assert answer.answered == "unknown" and "it has no nvidia.com/gpu.sliced.units" in answer.message


def test_a_pod_that_would_be_refused_today_says_so() -> None:
    answer = asked_at_creation(pod(limits={**HALF, "nvidia.com/gpu": "1"}), TABLE, pool=POOL)
    assert answer.answered == "passed" and answer.message.startswith("let in, and would be refused today: spec: ")


def test_several_containers_are_told_apart() -> None:
    spec = {"containers": [{"name": name, "resources": {"limits": WHOLE}} for name in ("a", "b")]}
    assert requested(spec, TABLE) == "a: nvidia.com/gpu=1; b: nvidia.com/gpu=1"


# Gate 2


def place(**queue: Any) -> Place:
    return Place(local_queue(), cluster_queue(**queue), None, POOL)


def test_a_reservation_is_told_in_units_cards_and_flavor() -> None:
    answer = credits_of(workload(), table=TABLE)
    assert answer.saw == f"800,000 units (0.5 cards) of credits.gpustack.ai/nvidia from {FLAVOR}"
    assert (answer.answered, answer.message) == ("passed", f"quota reserved in {QUEUE}")


NO_QUOTA = "couldn't assign flavors"


@pytest.mark.parametrize(
    ("waiting", "where", "change"),
    [
        (
            workload(reserved=NO_QUOTA),
            place(reserved="2800k"),
            f"0.25 cards more in credits on {FLAVOR}: other Workloads of the queue to end",
        ),
        (
            workload(reserved=NO_QUOTA, limits={"nvidia.com/gpu": "3"}),
            place(),
            "a request of at most 2 cards, it is for 3; or more nodes in the pool",
        ),
        (
            workload(reserved=NO_QUOTA),
            place(stopPolicy="Hold"),
            f"ClusterQueue {QUEUE} to admit again, it is on Hold",
        ),
        (
            workload(reserved=NO_QUOTA, active=False),
            place(),
            "spec.active: true on the Workload, which is switched off",
        ),
        (
            workload(reserved=NO_QUOTA),
            Place(),
            "a LocalQueue gpustack-fnv64-c4680bb149644f1c in the namespace: there is none",
        ),
        (
            workload(reserved=NO_QUOTA),
            Place(local_queue()),
            f"a ClusterQueue {QUEUE}, which the entrance leads to: there is none",
        ),
        (
            workload(reserved=NO_QUOTA, annotations={PLACEMENT_PIN: format_pin(Pin(why="full"))}),
            place(),
            "gate 3 to let it go: it is parked where no node is, so that it holds no quota meanwhile",
        ),
        (
            workload(reserved=NO_QUOTA),
            place(),
            "room on one node for everything that the Pod asks for, processors and memory included: "
            "the credits suffice",
        ),
    ],
)
def test_what_keeps_quota_away_is_named_first_things_first(waiting: Any, where: Place, change: str) -> None:
    answer = credits_of(waiting, table=TABLE, place=where)
    assert (answer.answered, answer.message, answer.change) == ("waiting", NO_QUOTA, change)


def test_a_pool_that_is_switched_off_says_so() -> None:
    switched_off = {"metadata": {"name": QUEUE}, "status": {"phaseMessage": "switched off: nothing new starts"}}
    stopped = Place(local_queue(), cluster_queue(stopPolicy="Hold"), switched_off, POOL)
    answer = credits_of(workload(reserved=NO_QUOTA), table=TABLE, place=stopped)
    assert answer.change.endswith("it is on Hold: switched off: nothing new starts")


# Gate 3

NOW = Outlook(False, "node gpu-1 has 0 free", "node gpu-1: GPU-0 held whole", "the end of Pod team/a")


@pytest.mark.parametrize(
    ("state", "told", "answered", "message"),
    [
        (
            {"state": "Ready", "message": "every Pod has its accelerators"},
            "",
            "passed",
            "every Pod has its accelerators",
        ),
        ({"state": "Retry", "message": "0 free"}, "", "held", "0 free"),
        ({"state": "Pending", "message": "Reset to Pending after eviction"}, "0 free", "held", "0 free"),
        ({"state": "Rejected", "message": "never"}, "", "refused", "never"),
        ({"state": "Pending"}, "", "waiting", "not asked yet; it would say now: node gpu-1 has 0 free"),
    ],
)
def test_the_check_says_what_its_state_says_or_what_was_told_before_kueue_reset_it(
    state: dict[str, Any], told: str, answered: str, message: str
) -> None:
    answer = check_of(workload(state=state), told=told, outlook=NOW)
    assert (answer.answered, answer.message) == (answered, message)
    assert answer.change == ("" if answered == "passed" else "the end of Pod team/a")


def test_an_admitted_workload_whose_queue_lists_no_check_was_not_judged() -> None:
    assert check_of(workload(conditions={"Admitted": "True"})).answered == "unknown"


# Gate 4


@pytest.mark.parametrize(
    ("seen", "answered", "message"),
    [
        (pod(nodeName="gpu-1"), "passed", "bound to gpu-1"),
        (
            pod(nodeName="gpu-1", status={"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "no gpu"}),
            "refused",
            "no gpu",
        ),
        (
            pod(
                status={
                    "conditions": [
                        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
                    ]
                }
            ),
            "waiting",
            "0/1 nodes",
        ),
        (pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]), "waiting", "not scheduled yet"),
    ],
)
def test_the_scheduler_has_bound_waits_or_was_overruled_by_the_kubelet(seen: Any, answered: str, message: str) -> None:
    answer = scheduled(seen)
    assert (answer.answered, answer.message) == (answered, message)


# Gate 5


@pytest.mark.parametrize(
    ("seen", "answered", "message"),
    [
        (pod(annotations=record(entry(0))), "passed", "GPU-0 (50%)"),
        (pod(annotations=record(entry(0, Mode.EXCLUSIVE, M), entry(1, Mode.EXCLUSIVE, M))), "passed", "GPU-0, GPU-1"),
        (pod(annotations=record(entry(0, Mode.SHARED, M // 10))), "passed", "GPU-0 (a share)"),
        (pod(annotations=record(entry(0, Mode.PARTITIONED, 1, "3g.40gb"))), "passed", "GPU-0 (3g.40gb)"),
        (pod(), "waiting", "no card settled yet"),
        (pod(annotations=record(entry(0), container="side")), "waiting", "no card settled yet for main"),
        (pod(limits={"cpu": "1"}), "unknown", "not asked: the Pod asks for no device"),
        (pod(status={"reason": "UnexpectedAdmissionError", "message": "no room"}), "refused", "no room"),
    ],
)
def test_the_plugin_has_settled_what_the_record_says(seen: Any, answered: str, message: str) -> None:
    answer = settled(seen, TABLE)
    assert (answer.answered, answer.message) == (answered, message)


def test_a_record_that_cannot_be_read_is_not_taken_for_an_answer() -> None:
    torn = pod(annotations={ALLOCATED: "{"})
    assert settled(torn, TABLE).answered == "unknown"
    assert cards_of_pod(torn) == []


# All of them


def test_a_pod_outside_every_queue_is_asked_about_by_gates_4_and_5_alone() -> None:
    stray = pod(queue="", nodeName="gpu-1", annotations=record(entry(0)))
    answers = explain_pod(stray, None, table=TABLE)
    assert [answer.answered for answer in answers] == ["unknown", "unknown", "unknown", "passed", "passed"]


def test_a_pod_of_a_job_came_through_the_jobs_queue() -> None:
    of_a_job = pod(queue="", owners=["uid-job"])
    answers = explain_pod(of_a_job, workload(owners=("uid-job",)), table=TABLE)
    assert [answer.answered for answer in answers[:2]] == ["passed", "passed"]


def test_a_pod_that_kueue_has_not_seen_waits_at_gates_2_and_3() -> None:
    answers = explain_pod(pod(), None, table=TABLE)
    assert [answer.answered for answer in answers] == ["passed", "waiting", "waiting", "waiting", "waiting"]


def test_a_workload_speaks_for_its_pods_by_the_worst_of_them() -> None:
    ran, waits = pod("ran", nodeName="gpu-1", annotations=record(entry(0))), pod("waits")
    answers = explain_workload(workload(), [ran, waits], table=TABLE, place=Place(pool=POOL))
    assert (answers[3].answered, answers[3].message) == ("waiting", "1 of 2 Pods: waits: not scheduled yet")
    assert (answers[4].answered, answers[4].message) == ("waiting", "1 of 2 Pods: waits: no card settled yet")


def test_a_workload_without_pods_says_what_refused_them() -> None:
    answers = explain_workload(workload(), [], table=TABLE, place=Place(pool=POOL), refused="spec.x: Invalid value")
    assert (answers[0].answered, answers[0].message) == ("refused", "spec.x: Invalid value")
    assert {answer.message for answer in answers[3:]} == {"there is no Pod yet"}


def test_the_same_words_are_said_once_for_all_who_heard_them() -> None:
    said = {name: Answer(4, "", "waiting", "0/3 nodes") for name in ("a", "b")} | {"c": Answer(4, "", "passed")}
    assert together(4, said).message == "2 of 3 Pods: a, b: 0/3 nodes"
