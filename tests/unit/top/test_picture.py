"""What `top` shows is what the objects say."""

from typing import Any

import pytest

from gpustack_ctl.accel.families import Mode, manufacturers
from gpustack_ctl.accel.labels import ALLOCATED, PLACEMENT_PIN
from gpustack_ctl.accel.pins import Pin, format_pin
from gpustack_ctl.accel.records import Entry, format_record
from gpustack_ctl.accel.units import M
from gpustack_ctl.top.document import document
from gpustack_ctl.top.picture import picture
from tests.unit.explain.cluster import devices, instance_type, sources
from tests.unit.explain.objects import QUEUE, local_queue, pod, workload

TABLE = manufacturers()


def test_a_card_is_shown_with_what_its_agent_published_and_with_its_holders() -> None:
    entry = Entry("a10g", "nvidia", "gpu-1-1", 1, Mode.SLICED, M // 2)
    holds = pod("holds", nodeName="gpu-1", annotations={ALLOCATED: format_record({"main": (entry,)})})
    elsewhere = pod("elsewhere", nodeName="gpu-2")
    held = sources(devices=[devices("gpu-1", cards=2, taken={1: (3, M // 2)})], pods=[holds, elsewhere])
    shown = document(picture(held, table=TABLE))["nodes"]
    free = {"id": "gpu-1-0", "index": 0, "mode": 0, "allocated": 0, "remaining": M, "slices": 0, "pods": []}
    half = {"id": "gpu-1-1", "index": 1, "mode": 3, "allocated": M // 2, "remaining": M // 2, "slices": 1}
    common = {"model": "nvidia-a10g", "unhealthy": False}
    assert shown == [{"name": "gpu-1", "cards": [{**free, **common}, {**half, **common, "pods": ["team/holds"]}]}]


def test_a_pool_shows_the_views_that_its_status_has() -> None:
    shown = document(picture(sources(instance_types=[instance_type(QUEUE)]), table=TABLE))["pools"]
    assert shown == [
        {
            "name": QUEUE,
            "entrance": "entrance",
            "phase": "Active",
            "accelerator": {"onceMaxRequest": "1", "remaining": "2", "capacity": "4"},
        }
    ]


HELD = {"reason": "AcceleratorsHeld", "regarding": {"uid": "uid-workload"}, "note": "0 free", "eventTime": "2"}
OLDER = {**HELD, "note": "1 free", "eventTime": "1"}


@pytest.mark.parametrize(
    ("waits", "why"),
    [
        (workload(state={"state": "Retry", "message": "no card"}), "no card"),
        (workload(state={"state": "Pending", "message": ""}), "waits for its admission checks"),
        (workload(reserved="insufficient quota"), "insufficient quota"),
        (workload(reserved="x", annotations={PLACEMENT_PIN: format_pin(Pin(why="GPU-0 is whole"))}), "GPU-0 is whole"),
    ],
)
def test_who_waits_is_shown_with_the_last_word_said(waits: Any, why: str) -> None:
    shown = picture(sources(workloads=[waits], local_queues=[local_queue()]), table=TABLE).pending
    assert [(each.workload, each.queue, each.message) for each in shown] == [("team/pod-half", QUEUE, why)]


def test_what_kueue_reset_after_a_hold_is_told_by_the_latest_event() -> None:
    evicted = workload(reserved="The workload has no reservation")
    evicted["status"]["conditions"].append({"type": "Evicted", "status": "True", "reason": "AdmissionCheck"})
    held = sources(workloads=[evicted])
    assert [each.message for each in picture(held, holds=[HELD, OLDER], table=TABLE).pending] == ["0 free"]


def test_one_that_ran_before_waits_since_it_was_evicted() -> None:
    again = workload(reserved="no quota")
    again["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert picture(sources(workloads=[again]), table=TABLE).pending[0].since == "2026-01-01T00:00:00Z"
    lost = {"type": "Admitted", "status": "False", "lastTransitionTime": "2026-01-02T00:00:00Z"}
    again["status"]["conditions"].append(lost)
    again["status"]["accumulatedPastExecutionTimeSeconds"] = 60
    assert picture(sources(workloads=[again]), table=TABLE).pending[0].since == "2026-01-02T00:00:00Z"


@pytest.mark.parametrize("kind", ["Admitted", "Finished"])
def test_what_runs_or_has_run_does_not_wait(kind: str) -> None:
    done = workload(conditions={kind: "True"})
    assert picture(sources(workloads=[done]), table=TABLE).pending == ()
