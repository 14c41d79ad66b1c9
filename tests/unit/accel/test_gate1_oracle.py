"""The oracle that believes no verdict must itself know right from wrong."""

import pytest

from gpustack_ctl.accel.judgement import judge
from tests.gate1.cases import CASES, TABLE, UNITS, Case, instance_types, pool_name, queue_of
from tests.gate1.oracle import Offer, offers, violations
from tests.unit.accel.test_gate1_cases import POOLS

OFFERS = offers()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_oracle_and_the_table_agree(case: Case) -> None:
    if case.says == "try again":
        return  # where a share's card count cannot be pinned, nothing in the Pod shows it
    pool = POOLS.get(pool_name(case.pool))
    spec = judge(case.spec, table=TABLE, pool=pool, queue=queue_of(case.pool)).spec
    assert bool(violations(dict(spec), OFFERS.get(queue_of(case.pool), Offer()))) is bool(case.refused)


def test_a_price_that_is_off_by_one_is_a_violation() -> None:
    case = next(case for case in CASES if case.name == "2 a slice of 33 %")
    spec = judge(case.spec, table=TABLE, pool=POOLS[pool_name(case.pool)], queue="q").spec
    resources = spec["containers"][0]["resources"]
    for side in ("limits", "requests"):
        resources[side][UNITS] = str(int(resources[side][UNITS]) + 1)
    assert violations(dict(spec), OFFERS[queue_of(case.pool)]) == ["528001 units, worth 528000"]


def test_every_pool_of_the_table_is_offered() -> None:
    assert len(OFFERS) == len(instance_types())
