"""The choice of card and place, over traces of partitions that come and go, beside the naive one."""

import pytest

from tests.bench.partition_traces import MIXES, MODELS, compare


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("model", MODELS)
def test_no_mix_on_any_model_loses_more_than_one_profile_in_a_hundred(model: str, mix: str) -> None:
    tally = compare(model, MIXES[mix], seeds=5, requests=200)

    assert tally.ours >= 0.99 * tally.naive > 0


@pytest.mark.parametrize("model", ["a100-sxm4-40gb", "a100-sxm4-80gb"])
def test_small_and_large_alike_on_a100_gain_a_twentieth(model: str) -> None:
    tally = compare(model, MIXES["1g and 4g alike"], seeds=8, requests=300)

    assert tally.ours >= 1.05 * tally.naive > 0
