"""What a placed Workload wants, and what keeps it from being judged."""

from typing import Any

import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.feasibility import UNREADABLE_COUNT
from gpustack_ctl.controllers.demands import UnclearError, counts_of, demands_of, nodes_of_flavor, pinned

TABLE = manufacturers()
IDENTITY = "acceleratable.feature.gpustack.ai/nvidia-a10g"


def flavor(**labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "a10g"},
        "spec": {"nodeLabels": {IDENTITY: "true", "kubernetes.io/os": "linux", **labels}},
    }


def workload(flavors: dict[str, str], *, limits: dict[str, str], nodes: dict[str, int] | None) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": limits}}
    assignment: dict[str, Any] = {"name": "main", "count": 2, "flavors": flavors}
    if nodes is not None:
        values = {"individual": {"roots": list(nodes)}}
        counts = {"individual": list(nodes.values())}
        part = {"domainCount": len(nodes), "valuesPerLevel": [values], "podCounts": counts}
        assignment["topologyAssignment"] = {"levels": ["kubernetes.io/hostname"], "slices": [part]}
    return {
        "metadata": {"name": "w"},
        "spec": {"podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [container]}}}]},
        "status": {"admission": {"clusterQueue": "pool", "podSetAssignments": [assignment]}},
    }


CREDITS = {"credits.gpustack.ai/nvidia": "a10g"}
WHOLE = {"nvidia.com/gpu": "1"}


def demands(placed: dict[str, Any], found: dict[str, Any] | None) -> list[tuple[str | None, int, str, int | None]]:
    read = demands_of(placed, pool=None, flavor_of=lambda _: found, table=TABLE)
    return [(each.node, each.pods, each.akey, each.card_count) for each in read]


def test_each_node_has_a_demand_of_its_own_against_what_the_flavor_pins() -> None:
    placed = workload(CREDITS, limits=WHOLE, nodes={"gpu-1": 1, "gpu-2": 1})
    pins = flavor(**{f"{IDENTITY}.count": "4"})
    assert demands(placed, pins) == [("gpu-1", 1, "nvidia-a10g", 4), ("gpu-2", 1, "nvidia-a10g", 4)]


def test_without_a_hostname_the_whole_role_is_one_demand() -> None:
    assert demands(workload(CREDITS, limits=WHOLE, nodes=None), flavor()) == [(None, 2, "nvidia-a10g", None)]


def test_a_role_that_asks_for_no_accelerator_needs_no_flavor() -> None:
    assert demands(workload({}, limits={"cpu": "1"}, nodes={"gpu-1": 2}), None) == []


@pytest.mark.parametrize(
    ("flavors", "found", "said"),
    [
        ({}, flavor(), "assigned: none"),
        ({**CREDITS, "credits.gpustack.ai/amd": "mi300"}, flavor(), "assigned: a10g, mi300"),
        (CREDITS, None, "flavor a10g is gone"),
        (CREDITS, {"metadata": {"name": "bare"}, "spec": {}}, "flavor bare pins no accelerator"),
    ],
)
def test_a_workload_without_one_clear_flavor_is_held_and_told_why(
    flavors: dict[str, str], found: dict[str, Any] | None, said: str
) -> None:
    with pytest.raises(UnclearError, match=said):
        demands(workload(flavors, limits=WHOLE, nodes={"gpu-1": 2}), found)


def test_a_workload_whose_admission_leaves_a_role_out_is_held_and_told_why() -> None:
    placed = workload(CREDITS, limits=WHOLE, nodes={"gpu-1": 2})
    placed["spec"]["podSets"].append({"name": "decode", "count": 1})
    with pytest.raises(UnclearError, match='role "decode" has no part in the admission'):
        demands(placed, flavor())
    with pytest.raises(UnclearError, match='role "main" has no part in the admission'):
        demands({**placed, "status": {}}, flavor())


def test_a_placement_that_cannot_be_read_is_held_and_told_why() -> None:
    placed = workload(CREDITS, limits=WHOLE, nodes={"gpu-1": 2})
    placed["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"]["slices"][0]["domainCount"] = 7
    with pytest.raises(UnclearError, match='role "main": its topologyAssignment cannot be read'):
        demands(placed, flavor())


def test_a_billion_pods_are_one_demand() -> None:
    placed = workload(CREDITS, limits=WHOLE, nodes={"gpu-1": 10**9})
    assert demands(placed, flavor()) == [("gpu-1", 10**9, "nvidia-a10g", None)]


def test_a_request_that_cannot_be_read_is_held_and_told_why() -> None:
    with pytest.raises(UnclearError, match=r'role "main": .*nvidia\.com/gpu'):
        demands(workload(CREDITS, limits={"nvidia.com/gpu": "0.5"}, nodes={"gpu-1": 2}), flavor())


def test_an_unreadable_pinned_count_matches_no_node() -> None:
    assert pinned(flavor(**{f"{IDENTITY}.count": "many"})) == ("nvidia-a10g", UNREADABLE_COUNT)


def test_a_nodes_unreadable_count_is_left_out() -> None:
    labels = {f"{IDENTITY}.count": "4", "acceleratable.feature.gpustack.ai/nvidia-l4.count": "x"}
    assert counts_of({"metadata": {"labels": labels}}) == {"nvidia-a10g": 4}


def test_a_flavor_selects_the_nodes_that_carry_all_its_labels() -> None:
    def node(name: str, **labels: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": labels}}

    nodes = [node("a", **{IDENTITY: "true", "kubernetes.io/os": "linux"}), node("b", **{IDENTITY: "true"})]
    assert nodes_of_flavor(flavor(), nodes) == ["a"]
