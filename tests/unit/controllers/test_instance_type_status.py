"""The phase of a pool in one word, and the strings of its columns."""

from typing import Any

import pytest

from gpustack_ctl.accel.views import FourViews, View
from gpustack_ctl.controllers.instance_type_status import CpuView, PoolFacts, cores, phase_of, status_of

THEN, NOW = "2026-12-01T14:00:00Z", "2026-12-01T15:00:00Z"


def instance_type(**status: Any) -> dict[str, Any]:
    spec = {"unitResources": {"cpu": "8", "ram": "64Gi"}, "localStorage": "100Gi"}
    return {"metadata": {"name": "pool", "generation": 1}, "spec": spec, "status": status}


def queue(policy: str = "None", *, reserving: int = 0, active: bool = True) -> dict[str, Any]:
    condition = {"type": "Active", "status": str(active), "message": "Can't admit new workloads: is stopped."}
    return {
        "spec": {"stopPolicy": policy, "resourceGroups": [{}]},
        "status": {"conditions": [condition], "reservingWorkloads": reserving},
    }


@pytest.mark.parametrize(
    ("changes", "found", "phase"),
    [
        ({}, queue(), "Active"),
        ({}, None, "Pending"),
        ({}, queue(active=False), "Pending"),
        ({"inactive": True}, queue("Hold", active=False), "Inactive"),
        ({}, queue("HoldAndDrain", reserving=2, active=False), "Draining"),
        ({}, queue("HoldAndDrain", active=False), "Inactive"),
    ],
)
def test_the_phase_says_whether_the_pool_takes_work(
    changes: dict[str, Any], found: dict[str, Any] | None, phase: str
) -> None:
    described = instance_type()
    described["spec"] |= changes
    assert phase_of(described, found)[0] == phase


def test_a_type_that_is_being_deleted_says_so_whatever_its_queue_does() -> None:
    ending = instance_type()
    ending["metadata"]["deletionTimestamp"] = NOW
    assert phase_of(ending, queue())[0] == "Deleting"


def test_the_columns_are_printed_from_the_views() -> None:
    views = FourViews(exclusive=View(4, 5, 5), shared=View(4, 50, 50), sliced=View(100, 500, 500))
    facts = PoolFacts(cpu=CpuView(192_000, 128_500, 64_000), views=views)
    printed = status_of(instance_type(), queue(), facts, now=NOW)["printed"]
    assert printed["unit"] == "8/64Gi/100Gi"
    assert printed["accelerator"] == "4/5 4/50 100/500 0/0"
    assert printed["cpu"] == "64/128500m"


def test_a_condition_keeps_the_time_since_when_it_holds() -> None:
    held = [{"type": "Ready", "status": "True", "lastTransitionTime": THEN}]
    conditions = status_of(instance_type(conditions=held), queue(), PoolFacts(cpu=CpuView()), now=NOW)["conditions"]
    assert [(each["type"], each["status"], each["lastTransitionTime"]) for each in conditions] == [
        ("Ready", "True", THEN),
        ("TopologyReady", "True", NOW),
    ]


def test_a_refused_plan_shows_on_the_type() -> None:
    facts = PoolFacts(cpu=CpuView(), refusal="65 flavors, and a queue takes 64")
    (_, topology) = status_of(instance_type(), queue(), facts, now=NOW)["conditions"]
    assert (topology["status"], topology["message"]) == ("False", "65 flavors, and a queue takes 64")


def test_the_detail_outlives_the_last_node() -> None:
    known = {"manufacturer": "nvidia", "memory": "24576Mi"}
    assert status_of(instance_type(detail=known), queue(), PoolFacts(cpu=CpuView()), now=NOW)["detail"] == known


def test_whole_cores_are_printed_as_such() -> None:
    assert (cores(4000), cores(0), cores(1500)) == ("4", "0", "1500m")
