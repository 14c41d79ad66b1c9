"""Pins as they are written, read back, and rendered into what a user wrote."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.accel.pins import PIN_NODES, Pin, carries, fit_expressions, format_pin, parse_pin, render, where
from tests.unit.accel.builders import demand, wants_share, wants_slice, wants_whole

PARKED = Pin(why="no room", since="2026-12-01T00:00:00Z", rounds=2)
ONTO = Pin(nodes=("a", "b"))
OFF = Pin(excluded=("c",))
FREE = Pin(excluded=())
FIT = [{"key": "sliced-max-free-units.fit.gpustack.ai/nvidia-a10g", "operator": "Gt", "values": ["799999"]}]

_keys = st.sampled_from(("zone", "kubernetes.io/hostname", "disk"))
_expressions = st.fixed_dictionaries(
    {"key": _keys, "operator": st.just("In"), "values": st.lists(st.sampled_from("abc"), min_size=1, max_size=2)}
)
_terms = st.lists(
    st.one_of(st.just({}), st.fixed_dictionaries({"matchExpressions": st.lists(_expressions, min_size=1)}))
)
_pins = st.sampled_from((None, PARKED, ONTO, OFF, FREE))
_fits = st.sampled_from(([], FIT))


def template(terms: list[Any] | None = None) -> dict[str, Any]:
    if not terms:
        return {"spec": {"containers": []}}
    return {"spec": {"containers": [], "affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}}}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def matches(rendered: dict[str, Any], labels: dict[str, str]) -> bool:
    """What the scheduler makes of required terms: any of them, all of its expressions, and an empty one never."""
    terms = rendered["spec"].get("affinity", {}).get("nodeAffinity", {}).get(_REQUIRED, {}).get("nodeSelectorTerms")
    if terms is None:
        return True
    return any(term and all(_holds(each, labels) for each in term["matchExpressions"]) for term in terms)


def _holds(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "DoesNotExist":
            return value is None
        case _:
            return value is not None and int(value) > int(expression["values"][0])


@given(_terms, _pins, _fits)
def test_a_pin_narrows_what_the_user_wrote_and_nothing_else(
    terms: list[Any], pin: Pin | None, fit: list[dict[str, Any]]
) -> None:
    written, rendered = template(terms), render(template(terms), pin, fit)
    for host in "abcd":
        for units in ("0", "800000"):
            labels = {"kubernetes.io/hostname": host, "zone": "a", FIT[0]["key"]: units}
            allowed = (pin is None or pin.allows(host)) and (not fit or units == "800000")
            assert matches(rendered, labels) == (matches(written, labels) and allowed)


@given(_terms, _pins, _pins, _fits, _fits)
def test_a_later_pin_takes_the_place_of_an_earlier_one(
    terms: list[Any], first: Pin | None, second: Pin | None, fit: list[Any], then: list[Any]
) -> None:
    written = template(terms)
    assert render(render(written, first, fit), second, then) == render(written, second, then)
    assert render(render(written, first, fit), None) == written


@given(_terms, _pins, _pins, _fits)
def test_a_template_carries_the_pin_that_was_rendered_into_it(
    terms: list[Any], pin: Pin | None, other: Pin | None, fit: list[Any]
) -> None:
    rendered = render(template(terms), pin, fit)
    assert carries(rendered, pin)
    selecting = not terms or any(terms)
    same = {None, FREE} >= {pin, other} or pin == other
    assert carries(rendered, other) == same or not selecting


@pytest.mark.parametrize(
    "pin",
    [PARKED, ONTO, OFF, FREE, Pin(nodes=("a",), toggled=True, lost=3, reserved=("a",), at="2026-12-01T00:00:00Z")],
)
def test_a_pin_is_read_as_it_was_written(pin: Pin) -> None:
    assert parse_pin(format_pin(pin)) == pin


def test_a_pin_is_short_json() -> None:
    assert json.loads(format_pin(Pin(nodes=("a",), why="w", rounds=1))) == {
        "v": 1,
        "nodes": ["a"],
        "why": "w",
        "rounds": 1,
    }


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "nonsense",
        "[]",
        "{}",
        '{"v":2}',
        '{"v":1,"nodes":"ab"}',
        '{"v":1,"nodes":[1]}',
        '{"v":1,"nodes":7}',
        '{"v":1,"nodes":[""]}',
        '{"v":1,"rounds":-1}',
        '{"v":1,"rounds":true}',
        '{"v":1,"lost":1e30}',
        '{"v":1,"why":{}}',
        '{"v":1,"toggled":"yes"}',
        '{"v":1,"unknown":1}',
        json.dumps({"v": 1, "nodes": ["n"] * 10_000}),
    ],
)
def test_what_is_no_pin_is_not_believed(text: str | None) -> None:
    assert parse_pin(text) is None


def test_a_pin_names_the_fewer_nodes_and_never_too_many() -> None:
    many = [f"n{number:04}" for number in range(PIN_NODES + 10)]
    assert where(["a"], ["b", "c"]) == (("a",), None)
    assert where(["b", "a"], ["c"]) == ((), ("c",))
    assert where(["a"], []) == ((), ())
    assert where([], []) == ((), None)
    nodes, excluded = where(many, many)
    assert excluded is None and len(nodes) == PIN_NODES


def test_the_labels_must_leave_room_for_the_largest_slice_and_the_widest_share() -> None:
    assert fit_expressions(demand(wants_slice(50), wants_slice(20)).pod, "nvidia-a10g") == FIT
    assert fit_expressions(demand(wants_share(3), wants_share(1)).pod, "nvidia-a10g") == [
        {"key": "shared-free-cards.fit.gpustack.ai/nvidia-a10g", "operator": "Gt", "values": ["2"]}
    ]
    assert fit_expressions(demand(wants_share(1)).pod, "nvidia-a10g") == []
    assert fit_expressions(demand(wants_whole(2)).pod, "nvidia-a10g") == []
