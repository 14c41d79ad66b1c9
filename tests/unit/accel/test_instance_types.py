from typing import Any

import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.instance_types import faults_of_change, faults_of_new, with_defaults, with_labels

TABLE = manufacturers()
NAME = "gpustack--nvidia-a10g-linux-amd64"


def instance_type(**spec: Any) -> dict[str, Any]:
    whole = {
        "acceleratable": True,
        "acceleratorGroup": "nvidia-a10g",
        "generalGroup": "generic",
        "os": "linux",
        "arch": "amd64",
        "unitResources": {"cpu": "8", "ram": "64Gi"},
        "localStorage": "100Gi",
    }
    changed = {name: value for name, value in (whole | spec).items() if value is not None}
    return {"metadata": {"name": NAME}, "spec": changed}


def flavor(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "labels": {
                "resource.gpustack.ai/type": "nodes",
                "feature.gpustack.ai/acceleratable": "true",
                "acceleratable.feature.gpustack.ai/nvidia-a10g": "true",
                "general.feature.gpustack.ai/generic": "true",
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
            "annotations": {f"note.gpustack.ai/{key}": value for key, value in annotations.items()},
        }
    }


def faults(obj: dict[str, Any]) -> list[str]:
    return [error.field for error in faults_of_new(obj, table=TABLE)]


def test_a_whole_type_has_no_fault():
    assert faults(instance_type()) == []
    cpus = instance_type(acceleratable=False, acceleratorGroup=None, unitResources={"cpu": 1, "ram": "2Gi"})
    assert faults(cpus) == []


def test_every_missing_field_is_named_at_once():
    assert faults({"metadata": {}, "spec": {}}) == [
        "metadata.name",
        "spec.acceleratable",
        "spec.os",
        "spec.arch",
        "spec.unitResources.cpu",
        "spec.unitResources.ram",
        "spec.localStorage",
    ]
    assert faults({"metadata": {"name": "t"}, "spec": {"acceleratable": True}})[0] == "spec.acceleratorGroup"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"acceleratable": False, "unitResources": {"cpu": "1", "ram": "2Gi"}}, "spec.acceleratorGroup"),
        ({"acceleratorGroup": "acme-x1"}, "spec.acceleratorGroup"),
        ({"acceleratorGroup": "nvidia-A 10G"}, "spec.acceleratorGroup"),
        ({"generalGroup": "amd/epyc"}, "spec.generalGroup"),
        ({"unitResources": {"cpu": "500m", "ram": "64Gi"}}, "spec.unitResources.cpu"),
        ({"unitResources": {"cpu": "0", "ram": "64Gi"}}, "spec.unitResources.cpu"),
        ({"unitResources": {"cpu": "1k", "ram": "64Gi"}}, "spec.unitResources.cpu"),
        ({"unitResources": {"cpu": "8", "ram": "0"}}, "spec.unitResources.ram"),
        ({"unitResources": {"cpu": "8", "ram": "-1Gi"}}, "spec.unitResources.ram"),
        ({"localStorage": "100G"}, "spec.localStorage"),
        ({"localStorage": "100"}, "spec.localStorage"),
        (
            {"acceleratable": False, "acceleratorGroup": None, "unitResources": {"cpu": "2", "ram": "4Gi"}},
            "spec.unitResources.cpu",
        ),
    ],
)
def test_one_wrong_field_is_one_fault(spec: dict[str, Any], field: str):
    assert faults(instance_type(**spec)) == [field]


def test_only_name_and_service_change_later():
    stored = instance_type()
    assert faults_of_change(stored, instance_type(displayName="A10G", inactive=True)) == []
    fields = [
        error.field for error in faults_of_change(stored, instance_type(arch="arm64", memory="1Gi", description="x"))
    ]
    assert fields == ["spec.arch", "spec.description", "spec.memory"]
    removed = faults_of_change(stored, instance_type(localStorage=None))
    assert [error.field for error in removed] == ["spec.localStorage"]


def test_a_type_stored_under_milder_rules_can_be_renamed_but_not_mended():
    legacy = instance_type(localStorage="100G", generalGroup=None)
    assert faults(legacy) == ["spec.localStorage"]
    assert faults_of_change(legacy, instance_type(localStorage="100G", displayName="old")) == []
    assert [e.field for e in faults_of_change(legacy, instance_type())] == ["spec.localStorage"]


def test_a_new_type_learns_what_its_hardware_is_and_keeps_what_its_author_wrote():
    flavors = [flavor("b", product="other"), flavor("a", product="NVIDIA A10G", memory="24576Mi", cores="9216")]
    made = with_defaults(instance_type(generalGroup=None, cores="1"), flavors=flavors, aware_cpu=False)
    assert made["spec"]["generalGroup"] == "generic"
    assert (made["spec"]["product"], made["spec"]["memory"], made["spec"]["cores"]) == ("NVIDIA A10G", "24576Mi", "1")


def test_with_cpu_awareness_the_cpu_goes_with_the_accelerator():
    flavors = [flavor("a", cpuDetail='{"product":"EPYC 7R32"}')]
    made = with_defaults(instance_type(), flavors=flavors, aware_cpu=True)
    assert made["spec"]["accelerator"] == {"cpu": {"product": "EPYC 7R32"}}
    assert "accelerator" not in with_defaults(instance_type(), flavors=flavors, aware_cpu=False)["spec"]
    unreadable = with_defaults(instance_type(), flavors=[flavor("a", cpuDetail="{")], aware_cpu=True)
    assert "accelerator" not in unreadable["spec"]


def test_the_schedule_labels_are_what_name_and_spec_say_whatever_was_written():
    forged = instance_type()
    forged["metadata"]["labels"] = {
        "schedule.gpustack.ai/queue-entrance": "somebody-elses",
        "acceleratable.feature.gpustack.ai/nvidia-h100": "true",
        "team": "a",
    }
    assert with_labels(forged, aware_cpu=False)["metadata"]["labels"] == {
        "team": "a",
        "feature.gpustack.ai/acceleratable": "true",
        "acceleratable.feature.gpustack.ai/nvidia-a10g": "true",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "schedule.gpustack.ai/queue-entrance": "gpustack-fnv64-c4680bb149644f1c",
    }


def test_nothing_a_stranger_sends_breaks_the_defaults():
    empty = {"metadata": {"name": "t"}}
    assert with_defaults(empty, flavors=[], aware_cpu=True)["metadata"] == {"name": "t"}


@pytest.mark.parametrize("value", [7, True, "text", [1], {"a": {}}, 1.5])
@pytest.mark.parametrize(
    "name", ["acceleratable", "acceleratorGroup", "generalGroup", "os", "arch", "unitResources", "localStorage"]
)
def test_what_stands_where_something_else_belongs_is_a_fault_and_no_accident(name: str, value: Any):
    found = faults(instance_type(**{name: value}))
    assert all(field.startswith(f"spec.{name}") for field in found) or name in ("acceleratable", "acceleratorGroup")


def test_units_that_are_no_quantities_are_named():
    assert faults(instance_type(unitResources={"cpu": [8], "ram": {}})) == [
        "spec.unitResources.cpu",
        "spec.unitResources.ram",
    ]
