"""What the API server itself accepts and refuses of our resources."""

import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gpustack_ctl.controllers import crd_install
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import ApiError, Invalid
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import DEVICES, INSTANCE_TYPES, SETTINGS
from gpustack_ctl.localcluster import LocalCluster


@pytest.fixture
async def kube(control_plane: LocalCluster) -> AsyncIterator[Kube]:
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig)) as kube:
        await crd_install.ensure(kube)
        yield kube


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def card(**changes: Any) -> Obj:
    physical = {
        "count": 7,
        "profiles": [{"name": "1g.10gb", "memoryMib": 9728, "count": 7, "placements": [{"start": 0, "length": 1}]}],
    }
    status = {"unhealthy": False, "logicalSliced": {"count": 0}, "physicalSliced": physical}
    return {"id": "GPU-1", "index": 0, "physicalIndexes": [0], "status": status, **changes}


def devices(name: str, *cards: Obj, **group: Any) -> Obj:
    spec = {"id": "a100-sxm4-80gb", "manufacturer": "nvidia", "memory": 81920, "accelerators": list(cards), **group}
    return {"metadata": {"name": name}, "spec": {"groups": [spec]}}


def instance_type(name: str, **changes: Any) -> Obj:
    spec = {
        "acceleratable": True,
        "acceleratorGroup": "nvidia-a10g",
        "os": "linux",
        "arch": "amd64",
        "unitResources": {"cpu": "8", "ram": "64Gi"},
        "localStorage": "100Gi",
        "memory": "24576Mi",
        **changes,
    }
    return {"metadata": {"name": name}, "spec": {key: value for key, value in spec.items() if value is not None}}


@pytest.mark.parametrize("version", ["v1alpha1", "v1"])
async def test_both_versions_are_served(kube: Kube, name: str, version: str):
    for resource, obj in ((DEVICES, devices(name, card())), (INSTANCE_TYPES, instance_type(name))):
        stored = await kube.create(replace(resource, version=version), obj, dry_run=True)
        assert stored["spec"] == obj["spec"], "nothing is pruned"


async def test_spec_and_status_are_written_apart(kube: Kube, name: str):
    row = {"id": "GPU-1", "index": 0, "mode": 3, "allocated": 800000, "remaining": 800000, "allocatedSlices": 1}
    group = {"id": "a100-sxm4-80gb", "manufacturer": "nvidia", "accelerators": [row]}
    ledger = {"metadata": {"name": name}, "status": {"groups": [group]}}
    try:
        created = await kube.create(DEVICES, {**devices(name, card()), "status": ledger["status"]})
        assert "status" not in created
        stored = await kube.apply(DEVICES, ledger, manager="test", subresource="status")
        assert stored["status"] == ledger["status"]
        assert stored["spec"] == created["spec"]
    finally:
        await kube.delete(DEVICES, name)


@pytest.mark.parametrize(
    ("fault", "field"),
    [
        (devices("x", card(), memory=-1), "spec.groups[0].memory"),
        (devices("x", card(), manufacturer="NVIDIA"), "spec.groups[0].manufacturer"),
        (devices("x", card(), id="A100 SXM4"), "spec.groups[0].id"),
        (devices("x", card(index=-1)), "spec.groups[0].accelerators[0].index"),
        (devices("x", card(), card()), "spec.groups[0].accelerators[1]"),
        (devices("x", {"index": 0}), "spec.groups[0].accelerators[0].id"),
    ],
)
async def test_faulty_devices_are_refused_with_their_field(kube: Kube, name: str, fault: Obj, field: str):
    with pytest.raises(Invalid) as refused:
        await kube.create(DEVICES, {**fault, "metadata": {"name": name}}, dry_run=True)
    assert field in refused.value.message


async def test_a_ledger_beyond_a_whole_card_is_refused(kube: Kube, name: str):
    await kube.create(DEVICES, devices(name, card()))
    try:
        for row in ({"mode": 5}, {"allocated": 1600001}, {"remaining": -1}):
            full = {"id": "GPU-1", "index": 0, "mode": 1, "allocated": 0, "remaining": 0, **row}
            group = {"id": "a100-sxm4-80gb", "manufacturer": "nvidia", "accelerators": [full]}
            ledger = {"metadata": {"name": name}, "status": {"groups": [group]}}
            with pytest.raises(Invalid, match=f"accelerators\\[0\\].{next(iter(row))}"):
                await kube.apply(DEVICES, ledger, manager="test", subresource="status")
    finally:
        await kube.delete(DEVICES, name)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"acceleratorGroup": None}, "spec.acceleratorGroup"),
        ({"acceleratable": False}, "spec.acceleratorGroup"),
        ({"unitResources": {"cpu": "8", "ram": "64 GB"}}, "spec.unitResources.ram"),
        ({"unitResources": {"cpu": "8"}}, "spec.unitResources.ram"),
        ({"localStorage": None}, "spec.localStorage"),
        ({"os": "Linux"}, "spec.os"),
        ({"displayName": "x" * 65}, "spec.displayName"),
    ],
)
async def test_a_faulty_type_is_refused_with_its_field(kube: Kube, name: str, changes: dict[str, Any], field: str):
    with pytest.raises(Invalid) as refused:
        await kube.create(INSTANCE_TYPES, instance_type(name, **changes), dry_run=True)
    assert field in refused.value.message


@pytest.mark.parametrize("value", ["true", "false"])
async def test_a_setting_is_on_or_off(kube: Kube, value: str):
    setting = {"metadata": {"name": "node-management-manual"}, "spec": {"value": value}}
    assert (await kube.apply(SETTINGS, setting, manager="test"))["spec"] == {"value": value}
    await kube.delete(SETTINGS, "node-management-manual")


async def test_a_setting_of_another_type_is_refused_and_told_what_to_write(kube: Kube):
    setting = {"metadata": {"name": "node-management-manual"}, "spec": {"value": "yes"}}
    with pytest.raises(Invalid, match='write "true" or "false" for node-management-manual, not "yes"'):
        await kube.create(SETTINGS, setting, dry_run=True)
    setting["spec"] = {"value": True}
    with pytest.raises(ApiError, match=r"spec\.value"):
        await kube.create(SETTINGS, setting, dry_run=True)


async def test_a_setting_that_nobody_reads_is_refused_with_the_names_that_exist(kube: Kube):
    setting = {"metadata": {"name": "workload-fit-afinity"}, "spec": {"value": "true"}}
    with pytest.raises(
        Invalid, match="no setting is named workload-fit-afinity; the settings are workload-fit-affinity"
    ):
        await kube.create(SETTINGS, setting, dry_run=True)
