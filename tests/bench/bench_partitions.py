"""How many partitions a node accepts over time, beside the first card with room and its lowest free slice.

The figure is naive ÷ ours, so that smaller is better as everywhere in the table: 1.01 is one partition in a hundred
lost to the naive choice, which is the most allowed; on 1g and 4g alike ours is to accept a twentieth more on an A100.
"""

from collections.abc import Callable

import pytest

from tests.bench.partition_traces import MIXES, MODELS, compare

SEEDS = 20


@pytest.mark.parametrize("model", MODELS)
def bench_partitions(model: str, measured: Callable[..., None]) -> None:
    for name, mix in MIXES.items():
        tally = compare(model, mix, seeds=SEEDS)
        goal = 1 / 1.05 if model.startswith("a100") and name == "1g and 4g alike" else 1 / 0.99
        measured(
            f"{model}, {name}: {tally.ours} accepted, {tally.naive} naively",
            1 / tally.ratio,
            unit="naive ÷ ours",
            goal=goal,
        )
