"""What every object carries can be read from any object."""

import pytest

from gpustack_ctl.kube.objects import (
    Obj,
    annotations_of,
    condition,
    deleting,
    is_true,
    key_of,
    labels_of,
    namespace_of,
    split_key,
    uid_of,
    version_of,
)

BARE: Obj = {"metadata": {"name": "bare"}}


def test_a_bare_object_reads_as_empty() -> None:
    assert (namespace_of(BARE), uid_of(BARE), version_of(BARE), deleting(BARE)) == ("", "", 0, False)
    assert (labels_of(BARE), annotations_of(BARE), condition(BARE, "Ready")) == ({}, {}, None)


@pytest.mark.parametrize("key", ["ns/name", "name"])
def test_a_key_tells_the_namespace_and_the_name(key: str) -> None:
    namespace, name = split_key(key)
    assert key_of({"metadata": {"namespace": namespace, "name": name}}) == key


def test_a_condition_is_true_only_when_it_says_so() -> None:
    obj = BARE | {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "Unknown"}]}}
    assert is_true(obj, "Ready")
    assert not is_true(obj, "Old")
    assert not is_true(obj, "Absent")


def test_versions_compare_as_numbers() -> None:
    assert version_of({"metadata": {"resourceVersion": "10"}}) > version_of({"metadata": {"resourceVersion": "9"}})
