"""A write is worth making when something that we say does not hold yet."""

from typing import Any

import pytest

from gpustack_ctl.kube.apply import subset_equal


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"spec": {"a": {"b": "c"}}}, {"spec": {"a": {"b": "c", "d": 1}}, "status": {}}),
        ({"list": [{"name": "x"}]}, {"list": [{"name": "x", "defaulted": True}]}),
        ({"gone": None}, {}),
        ({"gone": None}, {"gone": None}),
        ({}, {"a": 1}),
        ([], []),
        ("x", "x"),
    ],
)
def test_it_holds_already(desired: Any, live: Any) -> None:
    assert subset_equal(desired, live)


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {}),
        ({"a": {"b": 1}}, {"a": None}),
        ({"a": {}}, {}),
        ({"a": {}}, None),
        ({"a": []}, {}),
        ({"a": None}, {"a": 1}),
        ({"a": True}, {"a": 1}),
        ({"a": 0}, {"a": False}),
        ({"list": [1, 2]}, {"list": [2, 1]}),
        ({"list": [1]}, {"list": [1, 2]}),
        ({"list": [{"name": "x"}]}, {"list": [{"name": "y"}]}),
        ({"a": "ab"}, {"a": ["a", "b"]}),
    ],
)
def test_it_does_not_hold(desired: Any, live: Any) -> None:
    assert not subset_equal(desired, live)
