"""Kueue's compact placement, read in all its forms; and the moments at which gate 3 may speak."""

from typing import Any

import pytest

from gpustack_ctl.accel.labels import ADMISSION_CHECK
from gpustack_ctl.controllers.workloads import (
    awaits_verdict,
    holds_accelerators,
    nodes_of,
    pods_per_node,
    roles_of,
    waits_for_requeue,
)

HOSTNAME = "kubernetes.io/hostname"
GPU_1_AND_2 = {"individual": {"prefix": "gpu-", "roots": ["1", "2"]}}


def individual(*roots: str, prefix: str | None = None, suffix: str | None = None) -> dict[str, Any]:
    cut = {"prefix": prefix, "suffix": suffix}
    return {"individual": {"roots": list(roots)} | {key: value for key, value in cut.items() if value}}


def part(values: dict[str, Any], counts: dict[str, Any], domains: int = 1) -> dict[str, Any]:
    return {"domainCount": domains, "valuesPerLevel": [values], "podCounts": counts}


ONE_NODE = {"levels": [HOSTNAME], "slices": [part({"universal": "gpu-1"}, {"universal": 1})]}


@pytest.mark.parametrize(
    ("slices", "pods"),
    [
        ([part({"universal": "gpu-1"}, {"universal": 2})], {"gpu-1": 2}),
        ([part(individual("gpu-1"), {"individual": [3]})], {"gpu-1": 3}),
        ([part(GPU_1_AND_2, {"universal": 1}, 2)], {"gpu-1": 1, "gpu-2": 1}),
        (
            [part(individual("a", "b", prefix="gpu-", suffix=".lan"), {"individual": [4, 1]}, 2)],
            {"gpu-a.lan": 4, "gpu-b.lan": 1},
        ),
        ([part(individual("a", "b", suffix=".lan"), {"universal": 2}, 2)], {"a.lan": 2, "b.lan": 2}),
        (
            [
                part(GPU_1_AND_2, {"universal": 1}, 2),
                part({"universal": "cpu-1"}, {"universal": 5}),
            ],
            {"gpu-1": 1, "gpu-2": 1, "cpu-1": 5},
        ),
        (
            [part({"universal": "gpu-1"}, {"universal": 1}), part(individual("gpu-1"), {"individual": [2]})],
            {"gpu-1": 3},
        ),
    ],
)
def test_every_compact_form_names_the_same_pods_per_node(slices: list[dict[str, Any]], pods: dict[str, int]) -> None:
    assert pods_per_node({"levels": [HOSTNAME], "slices": slices}) == pods


def test_the_hostname_is_read_from_the_lowest_of_several_levels() -> None:
    values = [{"universal": "rack-1"}, individual("1", "2", prefix="gpu-")]
    placed = {"domainCount": 2, "valuesPerLevel": values, "podCounts": {"individual": [1, 2]}}
    assignment = {"levels": ["example.com/rack", HOSTNAME], "slices": [placed]}
    assert pods_per_node(assignment) == {"gpu-1": 1, "gpu-2": 2}


def test_a_placement_that_ends_above_the_hostname_names_no_node() -> None:
    rack_only = {"levels": ["example.com/rack"], "slices": [part({"universal": "rack-1"}, {"universal": 1})]}
    assert pods_per_node(rack_only) is None
    assert pods_per_node(None) is None


def workload(**status: Any) -> dict[str, Any]:
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "main"}]}}}
    return {"metadata": {"name": "w", "namespace": "team"}, "spec": {"podSets": [pod_set]}, "status": status}


def conditions(**by_type: bool) -> list[dict[str, str]]:
    return [{"type": name, "status": str(value)} for name, value in by_type.items()]


def check(state: str) -> list[dict[str, str]]:
    return [{"name": ADMISSION_CHECK, "state": state, "message": ""}]


def test_a_role_knows_its_flavor_its_pods_and_its_nodes() -> None:
    assignment = {
        "name": "main",
        "count": 1,
        "flavors": {"credits.gpustack.ai/nvidia": "a10g-4d", "cpu": "other"},
        "topologyAssignment": ONE_NODE,
    }
    placed = workload(admission={"clusterQueue": "pool", "podSetAssignments": [assignment]})
    (role,) = roles_of(placed)
    assert (role.name, role.pods, role.flavors, role.nodes) == ("main", 1, ("a10g-4d",), {"gpu-1": 1})
    assert role.pod_spec == {"containers": [{"name": "main"}]}
    assert nodes_of(placed) == {"gpu-1"}


def test_a_workload_without_a_reservation_has_no_roles() -> None:
    assert roles_of(workload()) == ()
    assert nodes_of(workload()) == frozenset()


@pytest.mark.parametrize(
    ("by_type", "awaits"),
    [
        ({"QuotaReserved": True}, True),
        ({"QuotaReserved": False}, False),
        ({}, False),
        ({"QuotaReserved": True, "Admitted": True}, False),
        ({"QuotaReserved": True, "Evicted": True}, False),
        ({"QuotaReserved": True, "Evicted": False}, True),
        ({"QuotaReserved": True, "Finished": True}, False),
    ],
)
def test_a_verdict_is_due_only_between_reservation_and_admission(by_type: dict[str, bool], awaits: bool) -> None:
    assert awaits_verdict(workload(conditions=conditions(**by_type), admissionChecks=check("Pending"))) is awaits


def test_a_workload_that_does_not_list_the_check_is_not_judged() -> None:
    assert not awaits_verdict(workload(conditions=conditions(QuotaReserved=True)))


@pytest.mark.parametrize(
    ("by_type", "state", "holds"),
    [
        ({"QuotaReserved": True, "Admitted": True}, "Ready", True),
        ({"QuotaReserved": True}, "Ready", True),
        ({"QuotaReserved": True}, "Retry", False),
        ({"QuotaReserved": True, "Admitted": True, "Finished": True}, "Ready", False),
        ({"QuotaReserved": False}, "Ready", False),
        ({"QuotaReserved": True, "Admitted": True, "Evicted": True}, "Ready", False),
    ],
)
def test_a_ready_holds_its_accelerators_before_its_pods_do(by_type: dict[str, bool], state: str, holds: bool) -> None:
    assert holds_accelerators(workload(conditions=conditions(**by_type), admissionChecks=check(state))) is holds


def test_a_ready_workload_that_kueue_still_delays_is_recognised() -> None:
    def delayed(checks: list[dict[str, str]], at: str | None = "2026-12-01T14:00:30Z", **by_type: bool) -> bool:
        held = conditions(QuotaReserved=True, **by_type)
        state = {"requeueAt": at} if at else {}
        return waits_for_requeue(workload(conditions=held, admissionChecks=checks, requeueState=state))

    assert delayed(check("Ready"))
    assert not delayed(check("Ready"), at=None)
    assert not delayed(check("Retry"))
    assert not delayed([*check("Ready"), {"name": "other", "state": "Retry", "message": ""}])
    assert not delayed([{"name": "other", "state": "Ready", "message": ""}])
    assert not delayed(check("Ready"), Admitted=True)
    assert not delayed(check("Ready"), Evicted=True)


@pytest.mark.parametrize(
    "slice_",
    [
        {},
        {"domainCount": 1},
        part({}, {"universal": 1}),
        part({"universal": "gpu-1"}, {}),
        part({"universal": "gpu-1"}, {"individual": [1, 2]}),
        part(GPU_1_AND_2, {"universal": 1}, 3),
        part(GPU_1_AND_2, {"individual": [1]}, 2),
        {"domainCount": 1, "valuesPerLevel": [], "podCounts": {"universal": 1}},
        {"domainCount": None, "valuesPerLevel": [{"universal": "a"}], "podCounts": {"universal": 1}},
    ],
)
def test_a_placement_that_contradicts_itself_is_a_fault_of_its_role(slice_: dict[str, Any]) -> None:
    assignment = {"name": "main", "topologyAssignment": {"levels": [HOSTNAME], "slices": [slice_]}}
    workload = {
        "spec": {"podSets": [{"name": "main", "count": 1}]},
        "status": {"admission": {"podSetAssignments": [assignment]}},
    }
    (role,) = roles_of(workload)
    assert role.fault and role.nodes == {}


def test_a_billion_pods_on_one_node_are_a_number() -> None:
    huge = part({"universal": "gpu-1"}, {"universal": 1}, 10**9)
    assert pods_per_node({"levels": [HOSTNAME], "slices": [huge]}) == {"gpu-1": 10**9}
