"""What the fold writes into a Pod, and what it leaves alone."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.accel.families import KeyKind, manufacturers
from gpustack_ctl.accel.folds import Fold, fold
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.units import M, quantity

TABLE = manufacturers()
POOL = Pool("pool", "nvidia-a100", "nvidia", memory_mib=81_920, profiles={"1g.10gb": 9_728})
GPU = "nvidia.com/gpu"
HALF = {f"{GPU}.sliced": "1", f"{GPU}.sliced.memory-percentage": "50"}
PIN = {"key": "acceleratable.feature.gpustack.ai/nvidia-a100.count", "operator": "Gt", "values": ["1"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def container(limits: dict[str, Any], name: str = "main") -> dict[str, Any]:
    return {"name": name, "image": "app", "resources": {"limits": limits, "requests": dict(limits)}}


def pod(*limits: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"containers": [container(each, f"c{index}") for index, each in enumerate(limits)], **spec}


def folded(spec: dict[str, Any], pool: Pool | None = POOL) -> Fold:
    return fold(spec, table=TABLE, pool=pool, queue="q")


def resources(result: Fold, index: int = 0) -> dict[str, Any]:
    assert result.spec is not None
    found: dict[str, Any] = result.spec["containers"][index]["resources"]
    return found


def terms(result: Fold) -> list[Any]:
    assert result.spec is not None
    found: list[Any] = result.spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return found


def test_a_slice_gets_its_units_and_all_cores_in_limits_and_requests() -> None:
    derived = {f"{GPU}.sliced.units": "800000", f"{GPU}.sliced.cores-percentage": "100"}
    found = resources(folded(pod({**HALF, "cpu": "1"})))
    assert found["limits"] == found["requests"] == {**HALF, "cpu": "1", **derived}


def test_cores_that_the_client_chose_are_kept() -> None:
    found = resources(folded(pod({**HALF, f"{GPU}.sliced.cores-percentage": "30"})))
    assert found["limits"][f"{GPU}.sliced.cores-percentage"] == "30"


@pytest.mark.parametrize("claimed", ["1", "1600000", "nonsense", "-5"])
def test_units_that_the_client_wrote_are_overwritten(claimed: str) -> None:
    assert resources(folded(pod({**HALF, f"{GPU}.sliced.units": claimed})))["limits"][f"{GPU}.sliced.units"] == "800000"


def test_mib_fold_by_the_vram_of_the_pool() -> None:
    found = resources(folded(pod({f"{GPU}.sliced": "1", f"{GPU}.sliced.memory-mib": "8192"})))
    assert found["limits"][f"{GPU}.sliced.units"] == "160000"


def test_a_partition_folds_by_the_memory_of_its_profile() -> None:
    found = resources(folded(pod({f"{GPU}.partitioned": "1", f"{GPU}.partitioned.mig-1g.10gb": "1"})))
    assert found["limits"][f"{GPU}.partitioned.units"] == "190000"
    assert f"{GPU}.sliced.cores-percentage" not in found["limits"]


def test_an_init_container_is_folded_too() -> None:
    result = folded({"initContainers": [container(HALF)], "containers": [container({})]})
    assert result.spec is not None
    assert result.spec["initContainers"][0]["resources"]["limits"][f"{GPU}.sliced.units"] == "800000"


def test_limits_are_written_where_the_client_gave_only_requests() -> None:
    found = resources(folded({"containers": [{"name": "a", "resources": {"requests": dict(HALF)}}]}))
    assert found["limits"] == {f"{GPU}.sliced.units": "800000", f"{GPU}.sliced.cores-percentage": "100"}


@pytest.mark.parametrize(
    "limits",
    [
        {"cpu": "1"},
        {GPU: "2"},
        {f"{GPU}.shared": "1"},
        {f"{GPU}.sliced.memory-percentage": "50"},  # no token: for the rules to refuse
        {**HALF, f"{GPU}.sliced.memory-mib": "100"},  # two budgets
        {f"{GPU}.sliced": "1", f"{GPU}.sliced.memory-percentage": "150"},
        {f"{GPU}.sliced": "0.5", f"{GPU}.sliced.memory-percentage": "50"},
    ],
)
def test_what_needs_no_fold_or_is_wrong_is_left_as_it_is(limits: dict[str, Any]) -> None:
    assert folded(pod(limits)) == Fold()


@pytest.mark.parametrize(
    "limits",
    [
        {f"{GPU}.sliced": "1", f"{GPU}.sliced.memory-mib": "100"},
        {f"{GPU}.partitioned": "1", f"{GPU}.partitioned.mig-1g.10gb": "1"},
        {f"{GPU}.shared": "2"},
    ],
)
@pytest.mark.parametrize("pool", [None, Pool("pool")])
def test_what_cannot_be_computed_yet_names_the_queue(limits: dict[str, Any], pool: Pool | None) -> None:
    (error,) = folded(pod(limits), pool).errors
    assert error.retryable
    assert 'queue "q"' in str(error)


def test_a_percentage_folds_before_anybody_knows_the_pool() -> None:
    result = folded(pod(HALF), None)
    assert result.errors == ()
    assert resources(result)["limits"][f"{GPU}.sliced.units"] == "800000"


def test_several_shares_are_pinned_to_nodes_with_as_many_cards() -> None:
    assert terms(folded(pod({f"{GPU}.shared": "2"}))) == [{"matchExpressions": [PIN]}]


def test_the_largest_request_of_any_one_container_sets_the_pin() -> None:
    (term,) = terms(folded(pod({f"{GPU}.shared": "2"}, {f"{GPU}.shared": "4"})))
    assert term["matchExpressions"][0]["values"] == ["3"]


def test_one_share_is_not_pinned() -> None:
    assert folded(pod({f"{GPU}.shared": "1"}, {f"{GPU}.shared": "1"})) == Fold()


def test_the_pin_is_anded_to_every_alternative_of_the_user() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    name = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    affinity = {
        "podAffinity": {},
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zone]}, {"matchFields": [name]}]}},
    }
    result = folded(pod({f"{GPU}.shared": "2"}, affinity=affinity))
    assert terms(result) == [{"matchExpressions": [zone, PIN]}, {"matchFields": [name], "matchExpressions": [PIN]}]
    assert result.spec is not None
    assert result.spec["affinity"]["podAffinity"] == {}


def test_an_alternative_that_matches_no_node_does_not_begin_to() -> None:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}
    assert folded(pod({f"{GPU}.shared": "2"}, affinity=affinity)) == Fold()


def test_the_argument_is_left_alone() -> None:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a"}]}]}}}
    spec = pod(HALF, {f"{GPU}.shared": "2"}, affinity=affinity)
    before = copy.deepcopy(spec)
    assert folded(spec).spec is not None
    assert spec == before


def test_units_that_the_api_server_respelt_are_still_right() -> None:
    once = folded(pod(HALF)).spec
    assert once is not None
    for side in ("limits", "requests"):
        once["containers"][0]["resources"][side][f"{GPU}.sliced.units"] = "800k"
    assert folded(once) == Fold()


_VALUES = st.sampled_from(["1", "2", "3", "50", "100", "101", "8Ki", "0", "-1", "0.5", "1e30", "x"])
_LIMITS = st.dictionaries(
    st.sampled_from(
        [row.key_for(kind, "1g.10gb") for row in (TABLE.by_key["nvidia"], TABLE.by_key["hygon"]) for kind in KeyKind]
    ),
    _VALUES,
    max_size=5,
)
_TERMS = st.lists(
    st.sampled_from(
        [{}, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, {"matchFields": [{"key": "metadata.name"}]}]
    ),
    max_size=3,
)
_PODS = st.builds(
    lambda containers, init, terms: {
        **pod(*containers),
        "initContainers": [container(each, "i") for each in init],
        "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}},
    },
    st.lists(_LIMITS, max_size=3),
    st.lists(_LIMITS, max_size=1),
    _TERMS,
)


@given(spec=_PODS, pool=st.sampled_from([POOL, None, Pool("new")]))
def test_a_second_fold_changes_nothing(spec: dict[str, Any], pool: Pool | None) -> None:
    first = folded(spec, pool)
    assert folded(first.spec or spec, pool) == Fold(None, first.errors)


@given(spec=_PODS)
def test_no_fold_is_ever_above_one_accelerator(spec: dict[str, Any]) -> None:
    result = folded(spec)
    for section in ("containers", "initContainers") if result.spec else ():
        for before, after in zip(spec[section], (result.spec or {})[section], strict=True):
            limits = after["resources"]["limits"]
            for key in limits.keys() - before["resources"]["limits"].keys():
                assert 0 < quantity(limits[key]) <= M
                assert after["resources"]["requests"][key] == limits[key]
