"""What a queue covers, and whether it may admit."""

from itertools import product
from typing import Any

import pytest

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.queues import (
    MOST_FLAVORS,
    QueueState,
    QueueVerdict,
    cluster_queue,
    local_queue,
    plan_groups,
    stop_policy,
)
from gpustack_ctl.accel.units import M

TABLE = manufacturers()


def flavor(name: str, *, count: int = 4, capacity: int = 4, akey: str | None = "nvidia-a10g", **metadata: Any) -> Any:
    attribute = labels.accelerator if akey else labels.general
    key = akey or "generic"
    found = {labels.general("generic"): "true", attribute(key): "true"}
    found |= {attribute(key, "count"): str(count), attribute(key, "capacity"): str(capacity)}
    return {"metadata": {"name": name, "labels": found, **metadata}}


def quotas(flavors: list[Any], manufacturer: str | None = "nvidia") -> list[tuple[str, str]]:
    plan = plan_groups(flavors, manufacturer=manufacturer, table=TABLE)
    assert len(plan.groups) <= 1
    return [(each["name"], each["resources"][0]["nominalQuota"]) for group in plan.groups for each in group["flavors"]]


def test_an_accelerated_queue_covers_credits_only() -> None:
    plan = plan_groups([flavor("f", capacity=8)], manufacturer="nvidia", table=TABLE)
    credits_ = {"name": "credits.gpustack.ai/nvidia", "nominalQuota": str(8 * M)}
    assert plan.groups == (
        {"coveredResources": ["credits.gpustack.ai/nvidia"], "flavors": [{"name": "f", "resources": [credits_]}]},
    )


def test_a_cpu_queue_covers_cores_only() -> None:
    plan = plan_groups([flavor("f", count=16, capacity=48, akey=None)], manufacturer=None, table=TABLE)
    cores = {"name": "cpu", "nominalQuota": "48"}
    assert plan.groups == ({"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [cores]}]},)


def test_flavors_of_few_cards_come_first() -> None:
    flavors = [flavor("eight", count=8), flavor("one", count=1), flavor("four-b", count=4), flavor("four-a", count=4)]
    assert [name for name, _ in quotas(flavors)] == ["one", "four-a", "four-b", "eight"]


def test_a_flavor_that_is_going_is_left_out() -> None:
    going = flavor("going", deletionTimestamp="2026-12-01T00:00:00Z")
    assert [name for name, _ in quotas([flavor("stays"), going])] == ["stays"]


@pytest.mark.parametrize("capacity", ["", "0", "many", "-4"])
def test_a_flavor_without_a_capacity_is_no_quota(capacity: str) -> None:
    broken = flavor("f")
    broken["metadata"]["labels"][labels.accelerator("nvidia-a10g", "capacity")] = capacity
    assert plan_groups([broken], manufacturer="nvidia", table=TABLE).empty


def test_no_flavor_is_an_empty_plan_without_a_refusal() -> None:
    plan = plan_groups([], manufacturer="nvidia", table=TABLE)
    assert plan.empty
    assert plan.refusal is None


def test_a_queue_takes_64_flavors_and_refuses_65_whole() -> None:
    flavors = [flavor(f"f{index:02}") for index in range(MOST_FLAVORS + 1)]
    assert len(quotas(flavors[:MOST_FLAVORS])) == MOST_FLAVORS
    plan = plan_groups(flavors, manufacturer="nvidia", table=TABLE)
    assert plan.groups == ()
    assert plan.refusal == "the pool has 65 flavors, and a queue takes 64"


GUARDED = {"guarded": True}


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        # born, filled, guarded, released
        (QueueState(empty_plan=True, empty_plan_hold=True, current="Hold"), QueueVerdict("Hold")),
        (QueueState(empty_plan_hold=True, current="Hold", guarded=False), QueueVerdict("Hold")),
        (QueueState(empty_plan_hold=True, current="Hold", guarded=True), QueueVerdict("None")),
        (QueueState(accelerated=False, guarded=False), QueueVerdict("None")),
        # switched off and on
        (QueueState(inactive=True, guarded=True), QueueVerdict("Hold")),
        (QueueState(inactive=True, guarded=True, reserving=True), QueueVerdict("Hold")),
        (QueueState(inactive=False, guarded=True, current="Hold"), QueueVerdict("None")),
        # the check went away
        (QueueState(guarded=False, reserving=True), QueueVerdict("Hold")),
        # deleted
        (QueueState(deleting=True, guarded=True), QueueVerdict("HoldAndDrain")),
        (QueueState(deleting=True, inactive=True, empty_plan=True), QueueVerdict("HoldAndDrain")),
        # the last flavor goes: drain, empty, and back
        (QueueState(empty_plan=True, guarded=True, reserving=True), QueueVerdict("HoldAndDrain", "None")),
        (
            QueueState(empty_plan=True, guarded=True, reserving=True, drain_when_empty=False),
            QueueVerdict("Hold", "None"),
        ),
        (
            QueueState(empty_plan=True, reserving=True, current="HoldAndDrain", saved="None"),
            QueueVerdict("HoldAndDrain", "None"),
        ),
        (
            QueueState(empty_plan=True, current="HoldAndDrain", saved="None"),
            QueueVerdict("Hold", "None", may_empty_groups=True),
        ),
        (QueueState(guarded=True, current="Hold", saved="None"), QueueVerdict("None")),
        (QueueState(guarded=True, current="Hold", saved="None", inactive=True), QueueVerdict("Hold")),
    ],
)
def test_the_stop_policy(state: QueueState, verdict: QueueVerdict) -> None:
    assert stop_policy(state) == verdict


_EVERY_STATE = [
    QueueState(
        inactive=inactive,
        deleting=deleting,
        empty_plan=empty,
        accelerated=accelerated,
        guarded=guarded,
        reserving=reserving,
        drain_when_empty=drain,
        current=current,
        saved=saved,
        empty_plan_hold=hold,
    )
    for inactive, deleting, empty, accelerated, guarded, reserving, drain, hold in product([False, True], repeat=8)
    for current in ("None", "Hold", "HoldAndDrain")
    for saved in (None, "None", "Hold")
]


def test_a_queue_admits_only_with_flavors_a_guard_and_nobody_against_it() -> None:
    for state in _EVERY_STATE:
        may = not (state.inactive or state.deleting or state.empty_plan or (state.accelerated and not state.guarded))
        assert (stop_policy(state).stop_policy == "None") == may, state


def test_groups_are_emptied_only_in_a_queue_that_is_stopped_and_holds_nothing() -> None:
    for state in _EVERY_STATE:
        if stop_policy(state).may_empty_groups:
            assert state.empty_plan, state
            assert not state.reserving, state
            assert state.current != "None", state


def test_only_an_end_drains() -> None:
    for state in _EVERY_STATE:
        if stop_policy(state).stop_policy == "HoldAndDrain":
            assert state.deleting or (state.empty_plan and state.drain_when_empty and state.reserving), state


def test_a_queue_is_born_held_without_groups_and_alone() -> None:
    spec = {"acceleratorGroup": "nvidia-a10g", "generalGroup": "generic", "os": "linux", "arch": "amd64"}
    queue = cluster_queue({"metadata": {"name": "pool"}, "spec": spec}, aware_cpu=False)
    assert queue["metadata"] == {
        "name": "pool",
        "labels": {
            "feature.gpustack.ai/acceleratable": "true",
            "acceleratable.feature.gpustack.ai/nvidia-a10g": "true",
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "resource.gpustack.ai/type": "instancetypes",
        },
        "annotations": {"topology.gpustack.ai/empty-plan-hold": "true"},
    }
    assert queue["spec"]["stopPolicy"] == "Hold"
    assert "resourceGroups" not in queue["spec"]
    assert "cohortName" not in queue["spec"]
    assert queue["spec"]["queueingStrategy"] == "BestEffortFIFO"


def test_an_entrance_is_named_by_the_hash_and_annotated_with_the_name() -> None:
    entrance = local_queue("gpustack--nvidia-a10g-linux-amd64", "team")
    assert entrance["metadata"] == {
        "name": "gpustack-fnv64-c4680bb149644f1c",
        "namespace": "team",
        "annotations": {"schedule.gpustack.ai/queue": "gpustack--nvidia-a10g-linux-amd64"},
    }
    assert entrance["spec"] == {"clusterQueue": "gpustack--nvidia-a10g-linux-amd64"}
