"""Simulated time: who runs when, who waits for whom, and what events do."""

from tests.unit.simulate.builders import A100, a_slice, rows, run, whole, workload


def fleet(*workloads: str, events: str = "", count: int = 1, holdings: str = "") -> str:
    return f"""
nodes: [{{name: a, count: {count}, cards: {A100}, holdings: [{holdings}]}}]
workloads: [{", ".join(workloads)}]
events: [{events}]
"""


def test_a_workload_runs_for_its_duration_from_its_admission() -> None:
    row = rows(fleet(workload("w", whole(1), rest="at: 5, duration: 60")))["w"]
    assert (row["admittedAt"], row["finishedAt"]) == (5.0, 65.0)


def test_one_without_a_duration_runs_to_the_end() -> None:
    row = rows(fleet(workload("w", whole(1))))["w"]
    assert (row["admittedAt"], row["finishedAt"]) == (0.0, None)


def test_whoever_arrives_when_another_ends_sees_the_room() -> None:
    found = rows(fleet(workload("w", whole(8), rest="duration: 60"), workload("v", whole(8), rest="at: 60")))
    assert found["v"]["admittedAt"] == 60.0
    assert found["v"]["message"] == ""


def test_who_waits_goes_by_priority_then_age() -> None:
    found = rows(
        fleet(
            workload("first", whole(8), rest="duration: 10"),
            workload("old", whole(8), rest="at: 1, duration: 10"),
            workload("young", whole(8), rest="at: 2, duration: 10"),
            workload("urgent", whole(8), rest="at: 3, duration: 10, priority: 1"),
        )
    )
    assert [found[name]["admittedAt"] for name in ("first", "urgent", "old", "young")] == [0.0, 10.0, 20.0, 30.0]


def test_a_large_workload_that_waits_does_not_stop_a_small_one() -> None:
    found = rows(
        fleet(
            workload("w", whole(4), rest="duration: 100"),
            workload("large", whole(8), rest="at: 1"),
            workload("small", whole(1), rest="at: 2, duration: 10"),
        )
    )
    assert found["small"]["admittedAt"] == 2.0
    assert found["large"]["admittedAt"] == 100.0


def test_a_released_workload_gives_its_cards_to_those_who_wait() -> None:
    found = rows(fleet(workload("w", whole(8)), workload("v", whole(8), rest="at: 1"), events="{at: 7, release: w}"))
    assert found["w"]["finishedAt"] == 7.0
    assert found["v"]["admittedAt"] == 7.0


def test_one_that_is_deleted_while_it_waits_was_held() -> None:
    document = run(fleet(workload("w", whole(8)), workload("v", whole(8), rest="at: 1"), events="{at: 7, release: v}"))
    row = document["workloads"][1]
    assert (row["gate2"], row["admittedAt"], row["finishedAt"]) == ("waiting", None, 7.0)
    assert row["message"].endswith("deleted while it waited")
    assert document["totals"]["held"] == 1


def test_a_sick_card_is_given_to_nobody_new_and_kept_by_who_has_it() -> None:
    found = rows(
        fleet(
            workload("w", whole(1), rest="duration: 50"),
            workload("v", whole(7), rest="at: 20, duration: 10"),
            workload("x", whole(8), rest="at: 60"),
            events="{at: 10, unhealthy: {node: a-0, card: 0}}, {at: 90, healthy: {node: a-0, card: 0}}",
        )
    )
    assert (found["w"]["cards"], found["w"]["finishedAt"]) == (["a-0/gpu-0"], 50.0)
    assert "a-0/gpu-0" not in found["v"]["cards"]
    assert found["x"]["admittedAt"] == 90.0


def test_what_ran_on_a_node_that_goes_starts_anew_elsewhere() -> None:
    found = rows(
        fleet(workload("w", whole(8), rest="duration: 60"), count=2, events="{at: 30, gone: a-0}"),
    )
    assert found["w"]["node"] == "a-1"
    assert (found["w"]["admittedAt"], found["w"]["finishedAt"]) == (30.0, 90.0)
    assert found["w"]["message"] == "node a-0 is gone: it waits again"


def test_a_node_that_goes_takes_its_credits_along() -> None:
    found = rows(fleet(workload("w", whole(8), rest="at: 2"), events="{at: 1, gone: a-0}"))
    assert found["w"]["gate2"] == "waiting"
    assert "credits" in found["w"]["message"]


def test_a_workload_that_was_judged_on_a_node_that_went_is_told_so() -> None:
    text = fleet(workload("w", whole(1), rest="node: a-0, at: 2"), count=2, events="{at: 1, gone: a-0}")
    assert rows(text)["w"]["message"] == "node a-0 is gone"


def test_utilisation_is_the_part_of_all_units_that_is_held_over_time() -> None:
    totals = run(
        fleet(workload("w", whole(4), rest="duration: 10"), workload("v", whole(8), rest="at: 20, duration: 20"))
    )["totals"]
    assert totals["seconds"] == 40.0
    assert totals["utilisation"] == (0.5 * 10 + 20) / 40
    assert totals["fragmentation"] == 0
    assert totals["overTime"][0] == {"at": 0.0, "utilisation": 0.5, "fragmentation": 0.0}


def test_room_that_is_there_in_sum_and_serves_nobody_is_waste() -> None:
    """Eight cards are free to 40 %, and somebody waits for half a card: half a card of eight is wasted."""
    held = ", ".join(f"{{card: {card}, family: sliced, units: 960000}}" for card in range(8))
    totals = run(fleet(workload("w", a_slice(50)), holdings=held))["totals"]
    assert totals["fragmentation"] == 0.5 / 8
    assert (totals["admitted"], totals["held"]) == (0, 1)


def test_no_room_left_is_no_waste() -> None:
    totals = run(fleet(workload("w", whole(8), rest="duration: 10"), workload("v", whole(8), rest="duration: 10")))[
        "totals"
    ]
    assert totals["fragmentation"] == 0
