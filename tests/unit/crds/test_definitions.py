from pathlib import Path
from typing import Any

import pytest

from gpustack_ctl import crds

DEPLOYED = Path(__file__).parents[3] / "deploy" / "crds"


def versions(name: str) -> list[dict[str, Any]]:
    return next(crd["spec"]["versions"] for crd in crds.all() if crd["metadata"]["name"] == name)


def schema(name: str) -> dict[str, Any]:
    return versions(name)[0]["schema"]["openAPIV3Schema"]


def lists_of(node: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(node, dict):
        return []
    found = [(path, node)] if node.get("type") == "array" else []
    for key, value in node.items():
        found += lists_of(value, f"{path}.{key}")
    return found


def test_the_deployed_files_are_what_the_code_says():
    on_disk = {file.name: file.read_text() for file in DEPLOYED.glob("*.yaml")}
    assert on_disk == crds.files(), "run `just generate`"


def test_writing_the_files_makes_the_directory(tmp_path):
    crds.write(tmp_path / "deploy" / "crds")
    assert {file.name for file in (tmp_path / "deploy" / "crds").iterdir()} == set(crds.files())


@pytest.mark.parametrize("name", ["devices.worker.gpustack.ai", "instancetypes.worker.gpustack.ai"])
def test_both_versions_are_served_with_one_schema_and_one_of_them_is_stored(name):
    alpha, stable = versions(name)
    assert (alpha["name"], stable["name"]) == ("v1alpha1", "v1")
    assert alpha["served"] and stable["served"]
    assert alpha["storage"] and not stable["storage"]
    assert alpha["schema"] == stable["schema"]
    assert alpha["additionalPrinterColumns"] == stable["additionalPrinterColumns"]


@pytest.mark.parametrize("definition", crds.DEFINITIONS, ids=lambda definition: definition.kind)
def test_status_is_a_subresource_of_its_own(definition):
    assert all(version["subresources"] == {"status": {}} for version in versions(definition.name))


@pytest.mark.parametrize("definition", crds.DEFINITIONS, ids=lambda definition: definition.kind)
def test_every_list_says_how_two_writers_merge_it(definition):
    for path, node in lists_of(schema(definition.name)):
        assert node.get("x-kubernetes-list-type") in {"map", "atomic"}, path


def test_groups_are_keyed_by_id_and_manufacturer():
    devices = schema("devices.worker.gpustack.ai")["properties"]
    for part in ("spec", "status"):
        assert devices[part]["properties"]["groups"]["x-kubernetes-list-map-keys"] == ["id", "manufacturer"]


def test_a_pool_prints_its_views_from_status():
    columns = {
        column["name"]: column for column in versions("instancetypes.worker.gpustack.ai")[0]["additionalPrinterColumns"]
    }
    assert list(columns) == [
        "Entrance",
        "Unit(CPU/RAM)/Storage",
        "Accelerator(EX/SH/SL/PT)",
        "CPU",
        "Phase",
        "Partitions",
    ]
    assert [name for name, column in columns.items() if column.get("priority")] == ["Partitions"]


def test_a_caller_may_change_what_it_was_given():
    crds.all()[0]["spec"]["versions"].clear()
    assert versions("devices.worker.gpustack.ai")
