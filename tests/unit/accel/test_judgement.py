"""One answer of gate 1: folded and admitted, or refused with every fault."""

from typing import Any

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.judgement import judge
from gpustack_ctl.accel.pools import Pool

TABLE = manufacturers()
POOL = Pool("pool", "nvidia-a10g", "nvidia", memory_mib=24_576)
GPU = "nvidia.com/gpu"
HALF = {f"{GPU}.sliced": "1", f"{GPU}.sliced.memory-percentage": "50"}


def pod(limits: dict[str, str]) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": {"limits": limits}}]}


def test_what_passes_comes_back_folded():
    judgement = judge(pod(HALF), table=TABLE, pool=POOL, queue="q")
    assert judgement.errors == ()
    assert judgement.spec["containers"][0]["resources"]["limits"][f"{GPU}.sliced.units"] == "800000"


def test_a_second_judgement_of_the_folded_spec_changes_nothing():
    folded = judge(pod(HALF), table=TABLE, pool=POOL, queue="q").spec
    assert judge(folded, table=TABLE, pool=POOL, queue="q").spec is folded


def test_a_spec_that_asks_for_nothing_comes_back_as_it_is():
    spec = pod({"cpu": "1"})
    judgement = judge(spec, table=TABLE, pool=None, queue="q")
    assert (judgement.spec is spec, judgement.errors) == (True, ())


def test_what_is_wrong_is_said_where_it_stands():
    wrong = pod(HALF | {f"{GPU}.sliced": "2"})
    (error,) = judge(wrong, table=TABLE, pool=POOL, queue="q", at="spec.template.spec").errors
    assert error.field == f"spec.template.spec.containers[0].resources.limits[{GPU}.sliced]"
