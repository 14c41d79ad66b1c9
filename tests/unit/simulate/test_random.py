"""Workloads that are drawn: the same for the same seed, and as the distribution says."""

from collections import Counter

from gpustack_ctl.simulate.reading import read_scenario
from gpustack_ctl.simulate.run import simulate
from tests.unit.simulate.builders import A100, MIG, TABLE, run

RANDOM = """
random: {seed: SEED, requests: 2000, rate: 1, meanDuration: 60,
         mix: {exclusive: .2, shared: .2, sliced: .5, partitioned: .1},
         sizes: {exclusive: {1: .7, 2: .2, 8: .1}, shared: {1: .8, 2: .2}, sliced: {10: .3, 25: .3, 50: .4},
                 partitioned: {1g.10gb: .6, 3g.40gb: .4}}}
"""
NODES = f"nodes: [{{name: a, count: 10, cards: {A100}}}, {{name: m, count: 4, cards: {MIG}}}]"


def scenario(seed: int) -> str:
    return NODES + RANDOM.replace("SEED", str(seed))


def test_the_same_seed_gives_the_same_document() -> None:
    drawn, again, other = (run(scenario(seed).replace("2000", "500")) for seed in (7, 7, 8))
    assert drawn == again
    assert drawn != other


def test_rates_durations_and_families_are_as_asked_for() -> None:
    document = run(scenario(1))
    rows = document["workloads"]
    assert 1800 < document["totals"]["seconds"] < 2800
    lasted = [row["finishedAt"] - row["admittedAt"] for row in rows]
    assert 50 < sum(lasted) / len(lasted) < 70
    per_card = Counter(row["node"][0] for row in rows)
    assert 140 < per_card["m"] < 260


def test_everybody_is_admitted_held_or_refused() -> None:
    totals = run(scenario(3))["totals"]
    assert totals["admitted"] + totals["held"] + totals["refused"] == 2000


def test_partitions_are_refused_by_a_fleet_that_has_none() -> None:
    document = run(f"nodes: [{{name: a, count: 10, cards: {A100}}}]" + RANDOM.replace("SEED", "1"))
    assert 140 < document["totals"]["refused"] < 260


def test_a_fleet_that_is_too_small_admits_everybody_in_the_end() -> None:
    """More is asked for than can run at once: they wait, and run when the others are done."""
    document = run(f"nodes: [{{name: a, count: 2, cards: {A100}}}]" + RANDOM.replace("SEED", "1"))
    totals = document["totals"]
    assert totals["held"] == 0
    assert totals["utilisation"] > 0.8
    assert sum(row["message"] != "" for row in document["workloads"]) > 1000


def test_progress_is_told_as_workloads_arrive() -> None:
    told: list[tuple[int, int]] = []
    text = scenario(1).replace("requests: 2000", "requests: 5000")
    simulate(
        read_scenario(text, source="s", table=TABLE), table=TABLE, progress=lambda done, of: told.append((done, of))
    )
    assert told == [(0, 5000), (4096, 5000)]
