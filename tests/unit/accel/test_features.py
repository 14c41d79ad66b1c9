"""A node's feature labels, written by the agent and read by the manager."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.features import AcceleratorFacts, NodeFacts, feature_labels, label_value, node_facts

A10G: dict[str, Any] = {
    "id": "a10g",
    "manufacturer": "nvidia",
    "name": "NVIDIA A10G",
    "memory": 24576,
    "cores": 9216,
    "family": "Ampere",
    "computeCapability": "8.6",
    "driverVersion": "550.54.15",
    "accelerators": [{"id": f"GPU-{index}", "index": index} for index in range(4)],
}
SPEC = {"groups": [A10G]}
NOTES = {
    "manufacturer": "nvidia",
    "product": "NVIDIA A10G",
    "memory": "24576Mi",
    "cores": "9216",
    "family": "Ampere",
    "computeCapability": "8.6",
    "driverVersion": "550.54.15",
}
PLACE = {labels.MANAGED: "true", labels.OS: "linux", labels.ARCH: "amd64", labels.TOPOLOGY_PROFILE: "fnv64-0"}


def node(found: dict[str, str], **annotations: str) -> dict[str, Any]:
    return {"metadata": {"name": "n", "labels": {**PLACE, **found}, "annotations": annotations}}


def test_the_labels_of_a_node_with_four_a10g() -> None:
    prefix = "acceleratable.feature.gpustack.ai/nvidia"
    assert feature_labels(SPEC, gkey="amd-epyc-7r32", cores=16) == {
        "feature.gpustack.ai/acceleratable": "true",
        "general.feature.gpustack.ai/amd-epyc-7r32": "true",
        "general.feature.gpustack.ai/amd-epyc-7r32.count": "16",
        f"{prefix}-a10g": "true",
        f"{prefix}-a10g.count": "4",
        f"{prefix}-a10g.product": "NVIDIA-A10G",
        f"{prefix}-a10g.memory": "24576",
        f"{prefix}-a10g.cores": "9216",
        f"{prefix}-a10g.family": "Ampere",
        f"{prefix}-a10g.comcap": "8.6",
        f"{prefix}.driver-version": "550.54.15",
    }


def test_the_labels_of_a_node_without_accelerators() -> None:
    assert feature_labels({}, gkey="generic", cores=2) == {
        "feature.gpustack.ai/acceleratable": "false",
        "general.feature.gpustack.ai/generic": "true",
        "general.feature.gpustack.ai/generic.count": "2",
    }


def test_a_sick_card_is_counted_all_the_same() -> None:
    sick = [{**card, "status": {"unhealthy": True}} for card in A10G["accelerators"]]
    found = feature_labels({"groups": [{**A10G, "accelerators": sick}]}, gkey="generic", cores=2)
    assert found[labels.accelerator("nvidia-a10g", "count")] == "4"


def test_what_was_written_is_read_back() -> None:
    found = feature_labels(SPEC, gkey="amd-epyc-7r32", cores=16)
    facts = node_facts(node(found), {"spec": SPEC})
    accelerator = AcceleratorFacts("nvidia-a10g", 4, NOTES)
    assert facts == NodeFacts("n", "linux", "amd64", "fnv64-0", "amd-epyc-7r32", 16, {}, (accelerator,))


def test_without_devices_the_labels_are_told_as_they_are() -> None:
    facts = node_facts(node(feature_labels(SPEC, gkey="generic", cores=2)), None)
    assert facts is not None
    assert facts.accelerators[0].notes == {**NOTES, "product": "NVIDIA-A10G"}


def test_a_node_with_two_models_has_facts_of_each() -> None:
    t4 = {"id": "tesla-t4", "manufacturer": "nvidia", "name": "Tesla T4", "accelerators": [{"id": "GPU-9"}]}
    facts = node_facts(node(feature_labels({"groups": [t4, A10G]}, gkey="generic", cores=2)), None)
    assert facts is not None
    assert [(each.akey, each.count) for each in facts.accelerators] == [("nvidia-a10g", 4), ("nvidia-tesla-t4", 1)]


@pytest.mark.parametrize(
    "missing",
    [
        labels.MANAGED,
        labels.OS,
        labels.ARCH,
        labels.TOPOLOGY_PROFILE,
        labels.general("generic"),
        labels.general("generic", "count"),
    ],
)
def test_a_node_that_a_flavor_could_not_select_has_no_facts_yet(missing: str) -> None:
    obj = node(feature_labels(SPEC, gkey="generic", cores=2))
    del obj["metadata"]["labels"][missing]
    assert node_facts(obj, None) is None


@pytest.mark.parametrize("count", ["", "0", "-1", "four", "4.0", "04", "9" * 40])
def test_a_count_that_cannot_be_read_makes_no_flavor(count: str) -> None:
    found = feature_labels(SPEC, gkey="generic", cores=2) | {labels.accelerator("nvidia-a10g", "count"): count}
    facts = node_facts(node(found), None)
    assert facts is not None
    assert facts.accelerators == ()


def test_the_cpu_s_detail_comes_from_its_note() -> None:
    found = feature_labels({}, gkey="generic", cores=2)
    detail = {"product": "AMD EPYC 7R32"}
    facts = node_facts(node(found, **{labels.note("cpuDetail"): json.dumps(detail)}), None)
    assert facts is not None
    assert facts.cpu_detail == detail


@pytest.mark.parametrize("note", ["", "{", "[]", "null"])
def test_a_note_that_cannot_be_read_costs_nobody_a_node(note: str) -> None:
    facts = node_facts(node(feature_labels({}, gkey="generic", cores=2), **{labels.note("cpuDetail"): note}), None)
    assert facts is not None
    assert facts.cpu_detail == {}


@given(st.text(max_size=100) | st.integers() | st.none())
def test_every_value_fits_a_label(value: object) -> None:
    assert re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", label_value(value))
