"""The InstanceType webhooks at the real API server: what a person who writes one is told."""

import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gpustack_ctl.accel.naming import entrance_name
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import Invalid
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import INSTANCE_TYPES
from tests.integration.webhooks.conftest import Pool
from tests.integration.webhooks.replica import Replica


def instance_type(name: str, **spec: object) -> Obj:
    whole = {
        "acceleratable": True,
        "acceleratorGroup": "nvidia-a10g",
        "os": "linux",
        "arch": "amd64",
        "unitResources": {"cpu": "8", "ram": "64Gi"},
        "localStorage": "100Gi",
    }
    return {"metadata": {"name": name}, "spec": whole | spec}


@pytest.fixture
async def name(kube: Kube, replica: Replica) -> AsyncIterator[str]:
    """A name that is free, while the webhooks are there; the type is gone at the end."""
    name = f"hand-made-{uuid.uuid4().hex[:6]}"
    yield name
    await kube.patch(INSTANCE_TYPES, name, {"metadata": {"finalizers": []}})
    await kube.delete(INSTANCE_TYPES, name)


async def test_an_empty_type_is_told_all_that_is_missing(kube: Kube, replica: Replica) -> None:
    with pytest.raises(Invalid) as refused:
        await kube.create(INSTANCE_TYPES, {"metadata": {"name": "empty"}, "spec": {}})
    fields = [cause["field"] for cause in refused.value.details["causes"]]
    assert fields == [
        "spec.acceleratable",
        "spec.os",
        "spec.arch",
        "spec.unitResources.cpu",
        "spec.unitResources.ram",
        "spec.localStorage",
    ]


async def test_a_type_needs_a_name_of_its_own(kube: Kube, replica: Replica) -> None:
    generated = instance_type("")
    generated["metadata"] = {"generateName": "pool-"}
    with pytest.raises(Invalid, match=r"metadata\.name"):
        await kube.create(INSTANCE_TYPES, generated)


async def test_a_hand_made_type_gets_its_labels_and_keeps_them(kube: Kube, name: str) -> None:
    made = await kube.create(INSTANCE_TYPES, instance_type(name))
    assert made["spec"]["generalGroup"] == "generic"
    entrance = {"schedule.gpustack.ai/queue-entrance": entrance_name(name)}
    assert entrance.items() <= made["metadata"]["labels"].items()
    elsewhere = {"metadata": {"labels": {"schedule.gpustack.ai/queue-entrance": "gpustack-fnv64-0000000000000000"}}}
    changed = await kube.patch(INSTANCE_TYPES, name, elsewhere)
    assert entrance.items() <= changed["metadata"]["labels"].items()


async def test_a_stored_type_is_renamed_and_switched_off_and_nothing_else(kube: Kube, name: str) -> None:
    await kube.create(INSTANCE_TYPES, instance_type(name))
    changed = await kube.patch(INSTANCE_TYPES, name, {"spec": {"displayName": "A10G", "inactive": True}})
    assert changed["spec"]["displayName"] == "A10G"
    with pytest.raises(Invalid) as refused:
        await kube.patch(INSTANCE_TYPES, name, {"spec": {"memory": "1Gi", "unitResources": {"cpu": "9"}}})
    assert [cause["field"] for cause in refused.value.details["causes"]] == ["spec.memory", "spec.unitResources"]


async def test_a_type_from_before_the_rules_can_be_renamed(kube: Kube, pool: Pool, replica: Replica) -> None:
    """The pool was made without the webhooks: it lacks what they would have filled in."""
    renamed = await kube.patch(INSTANCE_TYPES, pool.name, {"spec": {"displayName": "old"}})
    assert renamed["spec"]["displayName"] == "old"
    assert "generalGroup" not in renamed["spec"]


async def test_a_type_that_is_being_deleted_is_still_fixed_and_can_end(kube: Kube, name: str) -> None:
    held = instance_type(name)
    held["metadata"]["finalizers"] = ["gpustack.ai/controlled"]
    await kube.create(INSTANCE_TYPES, held)
    await kube.delete(INSTANCE_TYPES, name)
    with pytest.raises(Invalid, match=r"spec\.arch"):
        await kube.patch(INSTANCE_TYPES, name, {"spec": {"arch": "arm64"}})
    await kube.patch(INSTANCE_TYPES, name, {"metadata": {"finalizers": []}})
    await kube.create(INSTANCE_TYPES, instance_type(name))


async def test_both_versions_are_asked_about(kube: Kube, name: str) -> None:
    await kube.create(INSTANCE_TYPES, instance_type(name))
    with pytest.raises(Invalid, match=r"spec\.os"):
        await kube.patch(replace(INSTANCE_TYPES, version="v1"), name, {"spec": {"os": "windows"}})
