"""Flavors and derived types from the facts of nodes."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.features import AcceleratorFacts, NodeFacts
from gpustack_ctl.accel.flavors import (
    FlavorPlan,
    FlavorSettings,
    describe,
    plan_flavors,
    pool_has_flavor,
)
from gpustack_ctl.accel.profiles import TopologyProfile

FLAT = TopologyProfile().value
NOTES = {"manufacturer": "nvidia", "product": "NVIDIA A10G", "memory": "24576Mi", "cores": "9216"}
CPU_FLAVOR = "gpustack--amd-epyc-7r32-linux-amd64-16c"
GPU_FLAVOR = "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64-4d"


def a10g(count: int = 4) -> AcceleratorFacts:
    return AcceleratorFacts("nvidia-a10g", count, NOTES)


def node(name: str = "n0", *accelerators: AcceleratorFacts, **changes: Any) -> NodeFacts:
    facts = {"os": "linux", "arch": "amd64", "profile": FLAT, "gkey": "amd-epyc-7r32", "cores": 16, **changes}
    return NodeFacts(name, accelerators=accelerators, **facts)


def plan(*nodes: NodeFacts, **settings: bool) -> FlavorPlan:
    return plan_flavors(nodes, FlavorSettings(**settings))


def found(flavor: dict[str, Any], key: str) -> str | None:
    value: str | None = flavor["metadata"]["labels"].get(key)
    return value


def test_a_node_with_cards_is_a_flavor_of_its_cards_and_one_of_its_cpu() -> None:
    assert list(plan(node("n0", a10g())).flavors) == [GPU_FLAVOR, CPU_FLAVOR]


def test_an_accelerated_flavor_whole() -> None:
    gpu, cpu = labels.accelerator("nvidia-a10g"), labels.general("amd-epyc-7r32")
    assert plan(node("n0", a10g()), node("n1", a10g())).flavors[GPU_FLAVOR] == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {
            "name": GPU_FLAVOR,
            "labels": {
                cpu: "true",
                gpu: "true",
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                f"{gpu}.count": "4",
                f"{gpu}.capacity": "8",
                "feature.gpustack.ai/acceleratable": "true",
                "resource.gpustack.ai/type": "nodes",
            },
            "annotations": {f"note.gpustack.ai/{name}": value for name, value in NOTES.items()},
        },
        "spec": {
            "nodeLabels": {
                cpu: "true",
                gpu: "true",
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                f"{gpu}.count": "4",
                "gpustack.ai/managed": "true",
                "topology.gpustack.ai/profile": FLAT,
            },
            "tolerations": [{"operator": "Exists"}],
            "topologyName": f"gpustack-{FLAT}",
        },
    }


def test_a_cpu_flavor_counts_cores() -> None:
    flavor = plan(node("n0"), node("n1")).flavors[CPU_FLAVOR]
    assert found(flavor, labels.general("amd-epyc-7r32", "count")) == "16"
    assert found(flavor, labels.general("amd-epyc-7r32", "capacity")) == "32"
    assert found(flavor, labels.ACCELERATABLE) == "false"


def test_nodes_with_other_counts_are_other_flavors_of_one_pool() -> None:
    planned = plan(node("n0", a10g(1)), node("n1", a10g(4)))
    assert [name for name in planned.flavors if "a10g" in name] == [GPU_FLAVOR.replace("4d", "1d"), GPU_FLAVOR]
    assert list(planned.instance_types) == ["gpustack--nvidia-a10g-linux-amd64", "gpustack--generic-linux-amd64"]


def test_a_node_with_two_models_is_a_flavor_of_each() -> None:
    t4 = AcceleratorFacts("nvidia-tesla-t4", 2)
    assert sum(name[-1] == "d" for name in plan(node("n0", a10g(), t4)).flavors) == 2


def test_unmixed_nodes_with_cards_serve_no_cpu_workloads() -> None:
    planned = plan(node("n0", a10g()), node("n1"), mixed_on_node=False)
    assert found(planned.flavors[CPU_FLAVOR], labels.general("amd-epyc-7r32", "capacity")) == "16"
    assert planned.flavors[CPU_FLAVOR]["spec"]["nodeLabels"][labels.ACCELERATABLE] == "false"
    assert list(plan(node("n0", a10g()), mixed_on_node=False).flavors) == [GPU_FLAVOR]


def test_a_flavor_selects_by_no_more_labels_than_kueue_takes() -> None:
    planned = plan(node("n0", a10g()), node("n1"), mixed_on_node=False, aware_cpu=True)
    assert all(len(flavor["spec"]["nodeLabels"]) <= 8 for flavor in planned.flavors.values())


def test_two_topology_shapes_of_one_hardware_are_two_flavors() -> None:
    deep = TopologyProfile(("rack", labels.HOSTNAME)).value
    planned = plan(node("n0"), node("n1", profile=deep))
    assert list(planned.flavors) == [CPU_FLAVOR, f"{CPU_FLAVOR}-{deep}"]
    assert list(planned.instance_types) == ["gpustack--generic-linux-amd64"]


def test_a_derived_type_whole() -> None:
    assert plan(node("n0", a10g())).instance_types["gpustack--nvidia-a10g-linux-amd64"] == {
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "InstanceType",
        "metadata": {
            "name": "gpustack--nvidia-a10g-linux-amd64",
            "labels": {
                "feature.gpustack.ai/acceleratable": "true",
                "acceleratable.feature.gpustack.ai/nvidia-a10g": "true",
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "schedule.gpustack.ai/queue-entrance": "gpustack-fnv64-c4680bb149644f1c",
                "schedule.gpustack.ai/derived-from-node": "true",
            },
        },
        "spec": {
            "acceleratable": True,
            "acceleratorGroup": "nvidia-a10g",
            "generalGroup": "generic",
            "os": "linux",
            "arch": "amd64",
            "unitResources": {"cpu": "8", "ram": "64Gi"},
            "localStorage": "100Gi",
            **NOTES,
        },
    }


def test_a_cpu_type_is_one_core() -> None:
    spec = plan(node("n0")).instance_types["gpustack--generic-linux-amd64"]["spec"]
    assert (spec["acceleratable"], spec["unitResources"]) == (False, {"cpu": "1", "ram": "2Gi"})
    assert "acceleratorGroup" not in spec


def test_cpu_awareness_keeps_pools_apart_and_tells_the_cpu() -> None:
    detail = {"manufacturer": "amd", "product": "AMD EPYC 7R32"}
    planned = plan(node("n0", a10g(), cpu_detail=detail), node("n1", gkey="intel-x"), aware_cpu=True)
    pools = planned.instance_types
    assert sorted(pools) == [
        "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64",
        "gpustack--amd-epyc-7r32-linux-amd64",
        "gpustack--intel-x-linux-amd64",
    ]
    assert pools["gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64"]["spec"]["accelerator"] == {"cpu": detail}
    assert pools["gpustack--amd-epyc-7r32-linux-amd64"]["spec"]["cpu"] == detail
    assert json.loads(planned.flavors[GPU_FLAVOR]["metadata"]["annotations"]["note.gpustack.ai/cpuDetail"]) == detail


def test_without_awareness_only_cpu_flavors_note_the_cpu() -> None:
    planned = plan(node("n0", a10g(), cpu_detail={"product": "x"}))
    noted = [
        name
        for name, flavor in planned.flavors.items()
        if labels.note("cpuDetail") in flavor["metadata"]["annotations"]
    ]
    assert noted == [CPU_FLAVOR]


@pytest.mark.parametrize("aware", [False, True])
def test_every_flavor_belongs_to_one_derived_pool(aware: bool) -> None:
    planned = plan(node("n0", a10g()), node("n1", gkey="intel-x", arch="arm64"), aware_cpu=aware)
    for flavor in planned.flavors.values():
        having = [name for name, pool in planned.instance_types.items() if pool_has_flavor(pool, flavor)]
        assert len(having) == 1


def test_flavors_of_others_belong_to_no_pool() -> None:
    flavor = {"metadata": {"name": "theirs", "labels": {labels.general("x"): "true"}}}
    assert not pool_has_flavor(plan(node()).instance_types["gpustack--generic-linux-amd64"], flavor)


def test_a_type_made_by_hand_takes_its_descriptors_from_a_flavor() -> None:
    assert describe(plan(node("n0", a10g())).flavors[GPU_FLAVOR]) == NOTES
    assert describe({"metadata": {}}) == {}


_FACTS = st.builds(
    lambda name, cards, gkey, cores, profile: node(
        name,
        *(AcceleratorFacts(key, count, {"driver": name}) for key, count in cards),
        gkey=gkey,
        cores=cores,
        profile=profile,
    ),
    st.text("abc", min_size=1, max_size=2),
    st.dictionaries(st.sampled_from(["nvidia-a10g", "nvidia-a100", "hygon-k100"]), st.integers(1, 8)).map(dict.items),
    st.sampled_from(["generic", "amd-epyc"]),
    st.sampled_from([8, 16]),
    st.sampled_from([FLAT, "fnv64-1"]),
)


@given(nodes=st.lists(_FACTS, max_size=6, unique_by=lambda facts: facts.name), data=st.data())
def test_the_plan_does_not_depend_on_the_order_of_nodes(nodes: list[NodeFacts], data: st.DataObject) -> None:
    assert plan(*nodes) == plan(*data.draw(st.permutations(nodes)))


@given(nodes=st.lists(_FACTS, max_size=6, unique_by=lambda facts: facts.name))
def test_every_card_is_in_exactly_one_flavor(nodes: list[NodeFacts]) -> None:
    capacity = _capacities(plan(*nodes).flavors.values())
    assert capacity == sum(each.count for facts in nodes for each in facts.accelerators)


def _capacities(flavors: Iterable[dict[str, Any]]) -> int:
    return sum(
        int(value)
        for flavor in flavors
        for key, value in flavor["metadata"]["labels"].items()
        if key.startswith(labels.ACCELERATABLE_PREFIX) and key.endswith(".capacity")
    )
