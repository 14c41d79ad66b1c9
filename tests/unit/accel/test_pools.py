"""What an InstanceType says of its pool."""

from typing import Any

import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.naming import entrance_name
from gpustack_ctl.accel.pools import Pool, fronting, pool_of

TABLE = manufacturers()


def instance_type(spec: dict[str, Any] | None = None, detail: dict[str, Any] | None = None) -> dict[str, Any]:
    spec = {"acceleratable": True, "acceleratorGroup": "nvidia-a10g", **(spec or {})}
    return {"metadata": {"name": "pool"}, "spec": spec, "status": {"detail": detail or {}}}


def test_memory_is_read_as_a_quantity_of_bytes() -> None:
    pool = pool_of(instance_type({"memory": "24576Mi"}), table=TABLE)
    assert pool == Pool("pool", "nvidia-a10g", "nvidia", memory_mib=24_576)
    assert pool_of(instance_type({"memory": "24Gi"}), table=TABLE).memory_mib == 24_576


def test_the_spec_comes_before_what_was_observed() -> None:
    pool = pool_of(instance_type({"memory": "24Gi"}, {"memory": "48Gi"}), table=TABLE)
    assert pool.memory_mib == 24_576


def test_a_type_made_before_its_nodes_takes_the_observed_memory() -> None:
    assert pool_of(instance_type({}, {"memory": "24Gi"}), table=TABLE).memory_mib == 24_576


@pytest.mark.parametrize("memory", [None, "", "0", "1Ki", "much", "-1Gi", True])
def test_memory_that_says_nothing_is_not_known(memory: object) -> None:
    assert pool_of(instance_type({"memory": memory}), table=TABLE).memory_mib is None


def test_the_catalog_is_known_once_the_detail_names_a_manufacturer() -> None:
    profiles = [{"name": "1g.10gb", "count": 7, "memoryMib": 9728}, {"name": "1g.10gb+me", "memoryMib": 9728}]
    detail = {"slicedDetail": {"physical": {"count": 7, "profiles": profiles}}}
    assert pool_of(instance_type({}, detail), table=TABLE).profiles is None
    assert pool_of(instance_type({}, {"manufacturer": "nvidia", **detail}), table=TABLE).profiles == {"1g.10gb": 9728}
    assert pool_of(instance_type({}, {"manufacturer": "nvidia"}), table=TABLE).profiles == {}


def test_profiles_are_known_by_their_published_spelling() -> None:
    detail = {
        "manufacturer": "thead",
        "slicedDetail": {"physical": {"profiles": [{"name": "4g48gb", "memoryMib": 49152}]}},
    }
    assert pool_of(instance_type({"acceleratorGroup": "thead-ppu"}, detail), table=TABLE).profiles == {"4g.48gb": 49152}


def test_a_pool_of_cpus_has_no_accelerators() -> None:
    pool = pool_of({"metadata": {"name": "cpu"}, "spec": {"acceleratable": False}}, table=TABLE)
    assert pool == Pool("cpu", acceleratable=False)


def test_what_is_offered_reads_as_a_list() -> None:
    assert Pool("p", profiles={"3g.40gb": 1, "1g.10gb": 1}).offered == "1g.10gb, 3g.40gb"
    assert Pool("p", profiles={}).offered == "no partitions"


def test_of_several_types_that_claim_an_entrance_the_one_it_is_named_after_is_believed() -> None:
    queue = entrance_name("pool-b")
    types = [{"metadata": {"name": name}} for name in ("pool-a", "pool-b", "pool-c")]
    assert fronting(types, queue) == {"metadata": {"name": "pool-b"}}
    assert fronting(types, "another") == {"metadata": {"name": "pool-a"}}
    assert fronting([], queue) is None
