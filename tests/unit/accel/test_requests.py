"""Reading what a Pod asks for."""

from typing import Any

import pytest

from gpustack_ctl.accel.families import Family, KeyKind, manufacturers
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.requests import ContainerDemand, PodDemand, read_pod
from gpustack_ctl.accel.units import INT64_MAX, SHARE_UNITS, M

TABLE = manufacturers()
POOL = Pool("pool", "nvidia-a100", "nvidia", memory_mib=81_920, profiles={"1g.10gb": 9_728, "7g.80gb": 81_920})
GPU = "nvidia.com/gpu"
HALF = {f"{GPU}.sliced": "1", f"{GPU}.sliced.memory-percentage": "50"}


def container(limits: dict[str, Any], name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": limits, "requests": dict(limits)}, **more}


def read(*containers: dict[str, Any], pool: Pool | None = POOL, init: list[dict[str, Any]] | None = None) -> PodDemand:
    spec = {"containers": list(containers), "initContainers": init or []}
    return read_pod(spec, table=TABLE, pool=pool, queue="q")


def only(limits: dict[str, Any], *, pool: Pool | None = POOL) -> ContainerDemand:
    demand = read(container(limits), pool=pool)
    assert demand.errors == ()
    assert len(demand.containers) == 1
    return demand.containers[0]


def fault(limits: dict[str, Any], *, pool: Pool | None = POOL) -> str:
    demand = read(container(limits), pool=pool)
    assert demand.containers == ()
    assert len(demand.errors) == 1
    return str(demand.errors[0])


def test_whole_accelerators() -> None:
    assert only({GPU: "2"}) == ContainerDemand("main", "running", Family.EXCLUSIVE, "nvidia", 2, M)


def test_shares_of_distinct_accelerators() -> None:
    assert only({f"{GPU}.shared": "3"}) == ContainerDemand("main", "running", Family.SHARED, "nvidia", 3, SHARE_UNITS)


def test_a_slice_by_percentage_has_all_cores_unless_it_says_less() -> None:
    half = only(HALF)
    assert (half.cards, half.units, half.cores_percentage, half.memory_mib) == (1, 800_000, 100, 40_960)
    assert only({**HALF, f"{GPU}.sliced.cores-percentage": "30"}).cores_percentage == 30


def test_a_slice_by_percentage_needs_no_pool() -> None:
    half = only(HALF, pool=None)
    assert (half.units, half.memory_mib) == (800_000, None)


def test_a_slice_by_mib_is_its_part_of_the_vram() -> None:
    slice_ = only({f"{GPU}.sliced": "1", f"{GPU}.sliced.memory-mib": "8Ki"})
    assert (slice_.units, slice_.memory_mib) == (160_000, 8192)


def test_a_partition_costs_what_a_slice_of_its_memory_costs() -> None:
    partition = only({f"{GPU}.partitioned": "1", f"{GPU}.partitioned.mig-1g.10gb": "1"})
    assert (partition.family, partition.units, partition.profile) == (Family.PARTITIONED, 190_000, "1g.10gb")
    assert only({f"{GPU}.partitioned": "1", f"{GPU}.partitioned.mig-7g.80gb": "1"}).units == M


def test_the_client_s_own_units_are_not_believed() -> None:
    assert only({**HALF, f"{GPU}.sliced.units": "1"}).units == 800_000
    assert only({**HALF, f"{GPU}.sliced.units": "lots"}).units == 800_000


def test_requests_count_like_limits() -> None:
    demand = read({"name": "main", "resources": {"requests": {GPU: "1"}}})
    assert [each.cards for each in demand.containers] == [1]


def test_every_container_says_which_group_it_is_in() -> None:
    demand = read(
        container({GPU: "1"}),
        init=[container({GPU: "1"}, "setup"), container({GPU: "1"}, "proxy", restartPolicy="Always")],
    )
    assert [(each.container, each.group) for each in demand.containers] == [
        ("setup", "init"),
        ("proxy", "sidecar"),
        ("main", "running"),
    ]


def test_the_manufacturer_is_that_of_all_claims() -> None:
    both = read(container({GPU: "1"}), container({GPU: "1"}, "b"))
    mixed = read(container({GPU: "1"}), container({"amd.com/gpu.shared": "1"}, "b"))
    assert (both.manufacturer, both.none) == ("nvidia", False)
    assert (mixed.manufacturer, mixed.none) == (None, False)


def test_a_pod_without_accelerators_asks_for_none() -> None:
    assert read(container({"cpu": "1", "memory": "1Gi"}), {"name": "bare"}).none
    assert read(container({"device.gpustack.ai/nvidia.visibility": "1", "device.gpustack.ai/rdma": "1"})).none


def test_a_count_may_be_as_large_as_an_int64() -> None:
    assert only({GPU: str(INT64_MAX)}).cards == INT64_MAX


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("0.5", "must be a whole number"),
        ("100m", "must be a whole number"),
        ("1e30", "is larger than any count can be"),
        ("0", "must be greater than zero"),
        ("-1", "must be greater than zero"),
        ("two", "must be a quantity"),
        (None, "must be a quantity"),
        ([1], "must be a quantity"),
    ],
)
@pytest.mark.parametrize("kind", [KeyKind.WHOLE, KeyKind.SHARED, KeyKind.SLICED, KeyKind.PARTITIONED])
def test_a_count_that_cannot_be_one_is_a_fault_with_advice(kind: KeyKind, value: object, reason: str) -> None:
    key = GPU + kind
    message = fault({key: value})
    assert message.startswith(f'spec.containers[0].resources.limits[{key}]: Invalid value: "{value}": {reason}')
    assert "; write " in message


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            {f"{GPU}.sliced": "1"},
            f"limits[{GPU}.sliced.memory-percentage]: Required value: a slice needs a memory budget",
        ),
        (
            {f"{GPU}.sliced": "1", f"{GPU}.sliced.memory-percentage": "101"},
            f'limits[{GPU}.sliced.memory-percentage]: Invalid value: "101": must be at most 100',
        ),
        (
            {**HALF, f"{GPU}.sliced.cores-percentage": "150"},
            f'limits[{GPU}.sliced.cores-percentage]: Invalid value: "150": must be at most 100',
        ),
        (
            {**HALF, f"{GPU}.sliced.memory-mib": "100"},
            f'limits[{GPU}.sliced.memory-mib]: Invalid value: "100": a slice has one memory budget',
        ),
        (
            {f"{GPU}.sliced": "1", f"{GPU}.sliced.memory-mib": "81921"},
            f'limits[{GPU}.sliced.memory-mib]: Invalid value: "81921": an accelerator of this pool has 81920 MiB',
        ),
        (
            {f"{GPU}.partitioned": "1"},
            f"limits[{GPU}.partitioned.mig-<profile>]: Required value: a partition needs a profile",
        ),
        (
            {f"{GPU}.partitioned": "1", f"{GPU}.partitioned.mig-2g.20gb": "1"},
            f'limits[{GPU}.partitioned.mig-2g.20gb]: Unsupported value: "2g.20gb": the pool offers 1g.10gb, 7g.80gb',
        ),
        (
            {
                f"{GPU}.partitioned": "1",
                f"{GPU}.partitioned.mig-1g.10gb": "1",
                f"{GPU}.partitioned.mig-7g.80gb": "1",
            },
            'limits: Invalid value: "1g.10gb, 7g.80gb": a container gets one partition',
        ),
    ],
)
def test_a_request_that_cannot_be_folded_says_why(limits: dict[str, Any], message: str) -> None:
    assert fault(limits).startswith(f"spec.containers[0].resources.{message}")


@pytest.mark.parametrize(
    "limits",
    [
        {f"{GPU}.sliced": "1", f"{GPU}.sliced.memory-mib": "100"},
        {f"{GPU}.partitioned": "1", f"{GPU}.partitioned.mig-1g.10gb": "1"},
    ],
)
@pytest.mark.parametrize("pool", [None, Pool("pool", "nvidia-a100", "nvidia")])
def test_what_nobody_knows_yet_is_worth_another_try(limits: dict[str, Any], pool: Pool | None) -> None:
    (error,) = read(container(limits), pool=pool).errors
    assert error.retryable
    assert 'queue "q"' in error.message
    assert "try again" in error.message


def test_a_request_that_differs_from_its_limit_is_a_fault() -> None:
    spec = {"containers": [{"name": "a", "resources": {"limits": {GPU: "2"}, "requests": {GPU: "1"}}}]}
    (error,) = read_pod(spec, table=TABLE, pool=POOL).errors
    assert str(error).startswith(
        f'spec.containers[0].resources.requests[{GPU}]: Invalid value: "1": must equal the limit'
    )


def test_a_request_spelt_otherwise_than_its_limit_is_none() -> None:
    spec = {"containers": [{"name": "a", "resources": {"limits": {GPU: "2000"}, "requests": {GPU: "2k"}}}]}
    assert read_pod(spec, table=TABLE, pool=POOL).errors == ()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": "main"}, "spec.containers"),
        ({"containers": ["main"]}, "spec.containers[0]"),
        ({"initContainers": [{"resources": [1]}]}, "spec.initContainers[0].resources"),
        ({"containers": [{"resources": {"limits": "all"}}]}, "spec.containers[0].resources.limits"),
    ],
)
def test_a_spec_of_the_wrong_shape_is_a_fault_at_its_field(spec: dict[str, Any], field: str) -> None:
    assert [error.field for error in read_pod(spec, table=TABLE, pool=POOL).errors] == [field]


def test_a_megabyte_in_a_value_is_not_repeated_in_the_message() -> None:
    assert len(fault({GPU: "9" * (1 << 20)})) < 400


def test_a_thousand_containers_are_a_thousand_faults_and_no_more() -> None:
    many = [container({GPU: "0.5"}, f"c{index}") for index in range(1000)]
    assert len(read(*many).errors) == 1000
