import pytest

from gpustack_ctl.webhooks.patch import difference, pointer


@pytest.mark.parametrize(
    ("old", "new", "operations"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [{"op": "replace", "path": "/spec/a", "value": 2}]),
        ({}, {"a": {"b": 1}}, [{"op": "add", "path": "/spec/a", "value": {"b": 1}}]),
        ({"a": 1, "b": 2}, {"b": 2}, [{"op": "remove", "path": "/spec/a"}]),
        (
            {"a": [{"b": 1}, {"b": 2}]},
            {"a": [{"b": 1}, {"b": 3}]},
            [{"op": "replace", "path": "/spec/a/1/b", "value": 3}],
        ),
        ({"a": [1]}, {"a": [1, 2]}, [{"op": "replace", "path": "/spec/a", "value": [1, 2]}]),
        ({"a": None}, {"a": {}}, [{"op": "replace", "path": "/spec/a", "value": {}}]),
    ],
)
def test_a_patch_names_only_what_changes(old, new, operations):
    assert difference(old, new, "/spec") == operations


def test_a_resource_key_is_escaped_once():
    assert pointer("/limits", "nvidia.com/gpu.sliced") == "/limits/nvidia.com~1gpu.sliced"
    assert pointer("", "a~b/c") == "/a~0b~1c"
