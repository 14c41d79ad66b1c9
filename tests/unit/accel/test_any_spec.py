"""Whatever a decoder may hand over is read, folded and judged, and never raises."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.accel.families import KeyKind, manufacturers
from gpustack_ctl.accel.folds import fold
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.requests import read_pod
from gpustack_ctl.accel.rules import validate
from gpustack_ctl.accel.units import INT64_MAX, M

TABLE = manufacturers()
POOL = Pool("pool", "nvidia-a100", "nvidia", memory_mib=81_920, profiles={"1g.10gb": 9_728})

_KEYS = st.sampled_from(
    [
        row.key_for(kind, "1g.10gb")
        for row in (TABLE.by_key["nvidia"], TABLE.by_key["amd"], TABLE.by_key["thead"])
        for kind in KeyKind
    ]
    + ["cpu", "memory"]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_RESOURCES = st.dictionaries(_KEYS | st.text(max_size=8), st.sampled_from(["1", "2", "50", "0.5", "1e30"]) | _JSON)
_CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "name": _JSON,
            "restartPolicy": st.just("Always") | _JSON,
            "resources": _JSON | st.fixed_dictionaries({}, optional={"limits": _RESOURCES, "requests": _RESOURCES}),
        },
    )
    | _JSON,
    max_size=3,
)
#: Specs as a decoder may hand them over: the right words in the wrong places.
_SPECS = st.dictionaries(st.sampled_from(["containers", "initContainers", "affinity"]), _CONTAINERS | _JSON, max_size=3)


@given(spec=_SPECS, pool=st.sampled_from([None, POOL, Pool("new")]))
def test_no_spec_is_beyond_reading(spec: dict[str, Any], pool: Pool | None) -> None:
    demand = read_pod(spec, table=TABLE, pool=pool, queue="q")
    for each in demand.containers:
        assert 0 <= each.units <= M
        assert 1 <= each.cards <= INT64_MAX
    assert all(str(error) for error in demand.errors)


@given(spec=_SPECS, pool=st.sampled_from([None, POOL, Pool("new")]))
def test_no_spec_is_beyond_folding_and_judging(spec: dict[str, Any], pool: Pool | None) -> None:
    before = copy.deepcopy(spec)
    folded = fold(spec, table=TABLE, pool=pool, queue="q").spec or spec
    assert repr(spec) == repr(before)
    assert fold(folded, table=TABLE, pool=pool, queue="q").spec is None
    assert all(str(error) for error in validate(folded, table=TABLE, pool=pool, queue="q"))
