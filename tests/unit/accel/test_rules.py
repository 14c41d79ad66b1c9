"""The rules of a request, one by one and together."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.accel.families import KeyKind, manufacturers
from gpustack_ctl.accel.field_errors import FieldError
from gpustack_ctl.accel.folds import fold
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.rules import validate

TABLE = manufacturers()
POOL = Pool(
    "pool",
    "nvidia-a100",
    "nvidia",
    memory_mib=81_920,
    profiles={"1g.10gb": 9_728, "2g.20gb": 19_968, "7g.80gb": 80_896},
)
GPU = "nvidia.com/gpu"
HALF = {f"{GPU}.sliced": "1", f"{GPU}.sliced.memory-percentage": "50"}
SMALL = {f"{GPU}.partitioned": "1", f"{GPU}.partitioned.mig-1g.10gb": "1"}


def container(limits: dict[str, Any], name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": limits, "requests": dict(limits)}, **more}


def pod(*limits: dict[str, Any], init: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    containers = [container(each, f"c{index}") for index, each in enumerate(limits)]
    return {"containers": containers, "initContainers": init or []}


def errors(spec: dict[str, Any], *, pool: Pool | None = POOL) -> list[FieldError]:
    """The faults of a Pod as gate 1 sees it: folded first."""
    spec = fold(spec, table=TABLE, pool=pool, queue="q").spec or spec
    return validate(spec, table=TABLE, pool=pool, queue="q")


def said(spec: dict[str, Any], *, pool: Pool | None = POOL) -> list[str]:
    return [str(error) for error in errors(spec, pool=pool)]


@pytest.mark.parametrize(
    "spec",
    [
        pod({"cpu": "1"}),
        pod({GPU: "8"}),
        pod({GPU: "1"}, {GPU: "1"}),
        pod({f"{GPU}.shared": "2"}, {f"{GPU}.shared": "1"}),
        pod(HALF, {"cpu": "1"}),
        pod({f"{GPU}.sliced": "1", f"{GPU}.sliced.memory-mib": "81920", f"{GPU}.sliced.cores-percentage": "1"}),
        pod(SMALL),
        pod({}, init=[container(HALF, "setup")]),
        pod({}, init=[container({GPU: "1"}, "a"), container({GPU: "1"}, "b")]),
        pod({**HALF, "device.gpustack.ai/rdma": "1"}, {"device.gpustack.ai/nvidia.visibility": "1"}),
        pod(HALF, init=[container({"cpu": "1"}, "proxy", restartPolicy="Always")]),
    ],
)
def test_a_request_that_keeps_the_rules_passes(spec: dict[str, Any]) -> None:
    assert said(spec) == []


def test_two_slices_for_one_container() -> None:
    (message,) = said(pod({**HALF, f"{GPU}.sliced": "2"}))
    assert message == (
        'spec.containers[0].resources.limits[nvidia.com/gpu.sliced]: Invalid value: "2": must be 1: a container gets '
        "one slice; write 1 and size the slice with nvidia.com/gpu.sliced.memory-percentage, or ask for whole "
        "accelerators with nvidia.com/gpu"
    )


@pytest.mark.parametrize(
    ("spec", "starts"),
    [
        # 1: one family, one group
        (pod({GPU: "1"}, HALF), 'spec: Invalid value: "exclusive, sliced": a Pod asks for one family'),
        (pod({GPU: "1", f"{GPU}.shared": "1"}), 'spec: Invalid value: "exclusive, shared": a Pod asks for one family'),
        (
            pod({GPU: "1"}, init=[container({GPU: "1"}, "setup")]),
            'spec.initContainers: Forbidden: "setup" must give up the claim: accelerators are asked for by "c0" too',
        ),
        # 3: a partition is one
        (
            pod({**SMALL, f"{GPU}.partitioned": "2"}),
            f'spec.containers[0].resources.limits[{GPU}.partitioned]: Invalid value: "2": must be 1',
        ),
        # 5: of a profile, one
        (
            pod({**SMALL, f"{GPU}.partitioned.mig-1g.10gb": "2"}),
            f'spec.containers[0].resources.limits[{GPU}.partitioned.mig-1g.10gb]: Invalid value: "2": must be 1',
        ),
        # 6: one container slices
        (pod(HALF, HALF), 'spec: Invalid value: "2": one container of a Pod may ask for a slice or a partition'),
        (pod(SMALL, SMALL), 'spec: Invalid value: "2": one container of a Pod may ask for a slice or a partition'),
        # 7: sidecars get none
        (
            pod({}, init=[container({GPU: "1"}, "proxy", restartPolicy="Always")]),
            f"spec.initContainers[0].resources.limits[{GPU}]: Forbidden: a native sidecar gets no accelerator",
        ),
        # keys without their token
        (
            pod({f"{GPU}.sliced.memory-percentage": "50"}),
            f'spec.containers[0].resources.limits[{GPU}.sliced.memory-percentage]: Invalid value: "50": sizes ',
        ),
        (
            pod({f"{GPU}.sliced.cores-percentage": "50"}),
            f'spec.containers[0].resources.limits[{GPU}.sliced.cores-percentage]: Invalid value: "50": sizes a request',
        ),
        (
            pod({f"{GPU}.partitioned.mig-1g.10gb": "1"}),
            f'spec.containers[0].resources.limits[{GPU}.partitioned.mig-1g.10gb]: Invalid value: "1": sizes a request',
        ),
        (
            pod({f"{GPU}.sliced.units": "800000"}),
            f"spec.containers[0].resources.limits[{GPU}.sliced.units]: Forbidden: is computed from a request",
        ),
        # hardware that cannot
        (
            pod({"amd.com/gpu.sliced": "1", "amd.com/gpu.sliced.memory-percentage": "50"}),
            "spec.containers[0].resources.limits[amd.com/gpu.sliced]: Forbidden: amd accelerators are not sliced",
        ),
        (pod({GPU: "1"}, {"amd.com/gpu": "1"}), 'spec: Invalid value: "amd, nvidia": a Pod asks one manufacturer'),
        # what the pool does not have
        (
            pod({f"{GPU}.partitioned": "1", f"{GPU}.partitioned.mig-9g.9gb": "1"}),
            f"spec.containers[0].resources.limits[{GPU}.partitioned.mig-9g.9gb]: "
            'Unsupported value: "9g.9gb": the pool offers 1g.10gb, 2g.20gb, 7g.80gb',
        ),
        (
            pod({"hygon.com/dcu": "1"}),
            "spec.containers[0].resources.limits[hygon.com/dcu]: Forbidden: pool pool has accelerators of nvidia",
        ),
    ],
)
def test_a_broken_rule_is_named_at_its_field(spec: dict[str, Any], starts: str) -> None:
    assert any(message.startswith(starts) for message in said(spec)), said(spec)


def test_profiles_of_one_container_and_of_one_pod() -> None:
    both = {**SMALL, f"{GPU}.partitioned.mig-2g.20gb": "1"}
    other = {f"{GPU}.partitioned": "1", f"{GPU}.partitioned.mig-2g.20gb": "1"}
    (in_container,) = said(pod(both))
    assert in_container.startswith('spec.containers[0].resources.limits: Invalid value: "1g.10gb, 2g.20gb"')
    in_pod = said(pod(SMALL, other))
    assert any(message.startswith('spec: Invalid value: "1g.10gb, 2g.20gb": a Pod gets one') for message in in_pod)


def test_several_faults_are_reported_together() -> None:
    spec = pod({f"{GPU}.sliced": "2", f"{GPU}.sliced.memory-percentage": "0.5"}, {"amd.com/gpu": "-1"})
    assert [(error.field, error.value) for error in errors(spec)] == [
        (f"spec.containers[0].resources.limits[{GPU}.sliced.memory-percentage]", "0.5"),
        ("spec.containers[1].resources.limits[amd.com/gpu]", "-1"),
        (f"spec.containers[0].resources.limits[{GPU}.sliced]", "2"),
        ("spec", "exclusive, sliced"),
        ("spec", "amd, nvidia"),
        ("spec.containers[1].resources.limits[amd.com/gpu]", None),
    ]


def test_every_message_says_what_to_do() -> None:
    advice = ("write", "keep", "ask", "add", "leave", "use", "try again")
    spec = pod(
        {f"{GPU}.sliced": "2", f"{GPU}.sliced.memory-mib": "1e30"},
        {**SMALL, f"{GPU}.partitioned": "3"},
        init=[container({GPU: "1"}, "setup"), container({GPU: "1"}, "proxy", restartPolicy="Always")],
    )
    messages = [error.message for error in errors(spec)]
    assert len(messages) > 6
    assert all(any(word in message for word in advice) for message in messages), messages


def test_units_that_somebody_changed_after_the_fold_are_refused() -> None:
    spec = fold(pod(HALF), table=TABLE, pool=POOL, queue="q").spec
    assert spec is not None
    spec["containers"][0]["resources"]["limits"][f"{GPU}.sliced.units"] = "1"
    (error,) = validate(spec, table=TABLE, pool=POOL, queue="q")
    assert str(error).startswith(
        f'spec.containers[0].resources.limits[{GPU}.sliced.units]: Invalid value: "1": the request folds to 800000'
    )


def test_units_respelt_by_the_api_server_pass() -> None:
    limits = {**HALF, f"{GPU}.sliced.units": "800k", f"{GPU}.sliced.cores-percentage": "100"}
    assert validate(pod(limits), table=TABLE, pool=POOL, queue="q") == []


def test_a_slice_that_was_never_folded_would_cost_nothing_and_is_refused() -> None:
    assert {error.field for error in validate(pod(HALF), table=TABLE, pool=POOL, queue="q")} == {
        f"spec.containers[0].resources.limits[{GPU}.sliced.units]",
        f"spec.containers[0].resources.limits[{GPU}.sliced.cores-percentage]",
    }


def test_a_pool_of_cpus_offers_no_accelerator() -> None:
    (message,) = said(pod({GPU: "1"}), pool=Pool("cpus", acceleratable=False))
    assert "Forbidden: pool cpus has no accelerators" in message


def test_a_missing_pool_is_one_retryable_fault() -> None:
    (error,) = errors(pod({f"{GPU}.sliced": "1", f"{GPU}.sliced.memory-mib": "100"}), pool=None)
    assert error.retryable
    assert 'no InstanceType fronts queue "q" yet' in error.message


def test_the_path_of_a_job_template_leads_through_the_template() -> None:
    at = "spec.template.spec"
    found = validate(pod({**HALF, f"{GPU}.sliced": "2"}), table=TABLE, pool=POOL, queue="q", at=at)
    assert found[0].field == f"spec.template.spec.containers[0].resources.limits[{GPU}.sliced]"


def test_a_thousand_faults_are_reported_as_some_and_a_number() -> None:
    found = said(pod(*[{GPU: "0.5"}] * 1000))
    assert len(found) == 51
    assert found[-1] == "spec: Forbidden: 950 more faults; mend these first"


def test_long_lists_of_containers_stay_readable() -> None:
    found = said(pod(*[HALF] * 100))
    assert any('"c0", "c1", "c2" and 97 more do' in message for message in found)


_LIMITS = st.dictionaries(
    st.sampled_from(
        [row.key_for(kind, "1g.10gb") for row in (TABLE.by_key["nvidia"], TABLE.by_key["amd"]) for kind in KeyKind]
    ),
    st.sampled_from(["1", "2", "50", "101", "0", "-1", "0.5", "1e30", "x"]),
    max_size=4,
)
_CONTAINER = st.builds(
    lambda limits, policy: container(limits, **({"restartPolicy": policy} if policy else {})),
    _LIMITS,
    st.sampled_from([None, "Always"]),
)


@given(
    running=st.lists(_LIMITS, max_size=3),
    init=st.lists(_CONTAINER, max_size=2),
    pool=st.sampled_from([POOL, None, Pool("new"), Pool("cpus", acceleratable=False)]),
)
def test_what_passes_is_one_family_of_one_manufacturer_in_one_group(
    running: list[dict[str, Any]], init: list[dict[str, Any]], pool: Pool | None
) -> None:
    spec = pod(*running, init=init)
    found = errors(spec, pool=pool)
    assert all(error.field.startswith("spec") and error.message for error in found)
    if found:
        return
    keys = [
        (section, read)
        for section in ("initContainers", "containers")
        for each in spec[section]
        for key in each["resources"]["limits"]
        if (read := TABLE.read(key)) is not None and read.family is not None
    ]
    assert len({read.family for _, read in keys}) <= 1
    assert len({read.manufacturer.key for _, read in keys}) <= 1
    assert len({section for section, _ in keys}) <= 1
