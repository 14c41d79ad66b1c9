"""The table of gate 1's rules, asked of the function itself."""

from typing import Any

import pytest

from gpustack_ctl.accel.judgement import judge
from gpustack_ctl.accel.pools import pool_of
from gpustack_ctl.accel.units import stands_for
from tests.gate1.cases import CASES, NOWHERE, TABLE, Case, instance_types, pool_name, queue_of

POOLS = {found["metadata"]["name"]: pool_of(found, table=TABLE) for found in instance_types()}


@pytest.mark.parametrize("at", ["spec", "spec.template.spec"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_function_judges(case: Case, at: str) -> None:
    pool = None if case.pool == NOWHERE else POOLS[pool_name(case.pool)]
    judgement = judge(case.spec, table=TABLE, pool=pool, queue=queue_of(case.pool), at=at)
    assert sorted((error.type.value, error.field.removeprefix(at)) for error in judgement.errors) == sorted(
        case.refused
    )
    assert case.says in " ".join(map(str, judgement.errors))
    if case.refused:
        return
    assert ("affinity" in judgement.spec) is case.pinned
    for container, derived in zip(containers(judgement.spec), case.folded, strict=False):
        for side in ("limits", "requests"):
            found = container["resources"].get(side, {})
            assert all(stands_for(found.get(key), int(value)) for key, value in derived.items()), (side, found)


def containers(spec: Any) -> list[dict[str, Any]]:
    return [*spec.get("initContainers", ()), *spec["containers"]]


def test_every_case_has_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
