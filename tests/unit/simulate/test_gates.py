"""What each gate answers over a described fleet: the answers that are known beforehand."""

from tests.unit.simulate.builders import A100, MIG, a_slice, partition, roles, rows, run, whole, workload

EXAMPLE = """
nodes:
- name: a
  count: 2
  cards: {model: nvidia-a100-sxm4-80gb, count: 8, memoryMib: 81920, mig: false, slots: 128}
  holdings: [{card: 0, family: sliced, units: 800000}, {card: 1, family: exclusive},
             {card: 2, family: shared, shares: 3}, {card: 3, family: partitioned, profile: 3g.40gb, start: 4}]
workloads:
- {name: w1, at: 0, node: a-0, duration: 60, priority: 0, podSets: [{name: main, count: 1, containers: [
    {nvidia.com/gpu.sliced: 1, nvidia.com/gpu.sliced.memory-percentage: 50}]}]}
events: [{at: 30, release: w1}, {at: 40, unhealthy: {node: a-0, card: 4}}, {at: 50, gone: a-1}]
"""


def test_the_example_of_the_help_runs_as_it_stands() -> None:
    document = run(EXAMPLE)
    assert document["workloads"] == [
        {
            "workload": "w1",
            "gate1": "passed",
            "gate2": "passed",
            "gate3": "Ready",
            "node": "a-0",
            "cards": ["a-0/gpu-0"],
            "message": "",
            "admittedAt": 0.0,
            "finishedAt": 30.0,
        }
    ]
    assert document["totals"]["admitted"] == 1
    assert document["totals"]["seconds"] == 50.0


def test_eight_cards_held_by_half_do_not_serve_five_whole_ones() -> None:
    held = ", ".join(f"{{card: {card}, family: sliced, units: 800000}}" for card in range(8))
    row = rows(
        f"""
nodes: [{{name: a, cards: {A100}, holdings: [{held}]}}]
workloads: [{workload("five", whole(5), rest="node: a")}]
"""
    )["five"]
    assert (row["gate1"], row["gate2"], row["gate3"]) == ("passed", "passed", "Retry")
    assert row["message"].startswith(
        "node a needs 5 whole nvidia-a100-sxm4-80gb accelerators, 0 free (gpu-0 sliced 50%"
    )
    assert (row["admittedAt"], row["node"], row["cards"]) == (None, None, [])


def test_two_slices_of_thirty_percent_share_a_card_and_two_of_sixty_do_not() -> None:
    asked = ", ".join(workload(name, a_slice(percent)) for name, percent in zip("xyst", (30, 30, 60, 60), strict=True))
    found = rows(f"nodes: [{{name: a, cards: {A100}}}]\nworkloads: [{asked}]")
    assert [found[name]["cards"] for name in "xyst"] == [["a/gpu-0"], ["a/gpu-0"], ["a/gpu-1"], ["a/gpu-2"]]


def test_a_hygon_card_takes_no_fifth_slice() -> None:
    slices = ", ".join(
        workload(
            f"w{number}",
            "{hygon.com/dcu.sliced: 1, hygon.com/dcu.sliced.memory-percentage: 10}",
            rest="node: h",
        )
        for number in range(5)
    )
    found = rows(f"nodes: [{{name: h, cards: {{model: hygon-k100, memoryMib: 65536}}}}]\nworkloads: [{slices}]")
    assert [found[f"w{number}"]["gate3"] for number in range(5)] == ["Ready"] * 4 + ["Retry"]
    assert "all 4 slots" in found["w4"]["message"]


def test_partitions_fill_a_card_interval_by_interval() -> None:
    asked = [workload(f"w{at}", partition(profile)) for at, profile in enumerate(["3g.40gb", "3g.40gb", "1g.10gb"])]
    found = rows(f"nodes: [{{name: m, cards: {MIG}}}]\nworkloads: [{', '.join(asked)}]")
    assert [found[f"w{at}"]["admittedAt"] for at in range(3)] == [0.0, 0.0, None]


def test_a_profile_whose_places_are_all_overlapped_is_held_with_what_is_there() -> None:
    held = "holdings: [{card: 0, family: partitioned, profile: 1g.10gb, start: 0}]"
    asked = workload("w", partition("7g.80gb"), rest="node: m")
    row = rows(f"nodes: [{{name: m, cards: {MIG}, {held}}}]\nworkloads: [{asked}]")["w"]
    assert row["gate3"] == "Retry"
    assert "needs 1 7g.80gb partition" in row["message"]


def test_a_request_that_the_webhook_refuses_goes_no_further() -> None:
    row = rows(f"nodes: [{{name: a, cards: {A100}}}]\nworkloads: [{workload('w', '{nvidia.com/gpu.sliced: 2}')}]")["w"]
    assert (row["gate1"], row["gate2"], row["gate3"]) == ("refused", None, None)
    assert "spec.containers[0].resources.limits[nvidia.com/gpu.sliced]" in row["message"]
    assert "write 1" in row["message"]


def test_credits_that_are_spent_hold_at_gate_2_until_they_come_back() -> None:
    asked = f"{workload('all', whole(8), rest='duration: 10')}, {workload('one', whole(1), rest='at: 1')}"
    row = rows(f"nodes: [{{name: a, cards: {A100}}}]\nworkloads: [{asked}]")["one"]
    assert row["admittedAt"] == 10.0
    assert "asks for 1600000 credits" in row["message"]


def test_totals_that_suffice_and_cards_that_do_not_hold_at_gate_3() -> None:
    """The node counts half a card twice over; no single card has it."""
    held = ", ".join(f"{{card: {card}, family: sliced, units: 960000}}" for card in range(8))
    row = rows(f"nodes: [{{name: a, cards: {A100}, holdings: [{held}]}}]\nworkloads: [{workload('w', a_slice(50))}]")[
        "w"
    ]
    assert (row["gate2"], row["gate3"]) == ("passed", "Retry")
    assert "needs a slice of 50%" in row["message"]


def test_a_workload_goes_past_the_node_that_only_counts_room_to_the_one_that_has_it() -> None:
    held = ", ".join(f"{{card: {card}, family: sliced, units: 960000}}" for card in range(8))
    text = f"""
nodes: [{{name: a, cards: {A100}, holdings: [{held}]}}, {{name: b, cards: {A100}}}]
workloads: [{workload("w", a_slice(50))}]
"""
    assert rows(text)["w"]["cards"] == ["b/gpu-0"]


def test_the_node_with_the_least_free_capacity_is_filled_first() -> None:
    text = f"""
nodes: [{{name: a, cards: {A100}}}, {{name: b, cards: {A100}, holdings: [{{card: 0, family: exclusive}}]}}]
workloads: [{workload("w", whole(1))}, {workload("all", whole(8))}]
"""
    found = rows(text)
    assert found["w"]["node"] == "b"
    assert found["all"]["node"] == "a"


def test_several_shares_go_to_distinct_cards_of_a_node_that_has_as_many() -> None:
    text = f"""
nodes: [{{name: a, cards: {{model: nvidia-a100-sxm4-80gb, memoryMib: 81920}}}}, {{name: b, count: 1, cards: {A100}}}]
workloads: [{workload("w", "{nvidia.com/gpu.shared: 2}")}]
"""
    assert rows(text)["w"]["cards"] == ["b-0/gpu-0", "b-0/gpu-1"]


def test_a_pod_set_that_no_node_takes_is_split_over_several() -> None:
    row = rows(f"nodes: [{{name: a, count: 3, cards: {A100}}}]\nworkloads: [{roles('w', main=(5, whole(4)))}]")["w"]
    assert row["gate3"] == "Ready"
    assert len(row["cards"]) == 20
    assert row["node"] == "a-0,a-1,a-2"


def test_two_pod_sets_never_spend_a_card_twice() -> None:
    asked = [
        roles("w", prefill=(1, whole(5)), decode=(3, a_slice(60))),
        roles("v", prefill=(1, whole(1)), decode=(1, whole(1))),
    ]
    found = rows(f"nodes: [{{name: a, cards: {A100}}}]\nworkloads: [{', '.join(asked)}]")
    assert len(set(found["w"]["cards"])) == 8
    assert found["v"]["admittedAt"] is None


def test_the_message_names_the_role_that_is_starved() -> None:
    held = ", ".join(f"{{card: {card}, family: sliced, units: 800000}}" for card in range(4))
    asked = roles("w", prefill=(1, whole(3)), decode=(1, whole(2)), rest="node: a")
    row = rows(f"nodes: [{{name: a, cards: {A100}, holdings: [{held}]}}]\nworkloads: [{asked}]")["w"]
    assert row["gate3"] == "Retry"
    assert 'role "decode": node a needs 2 whole' in row["message"]


def test_a_pod_set_of_a_billion_pods_waits_and_breaks_nothing() -> None:
    asked = [roles("w", main=(10**9, whole(1))), workload("v", whole(1))]
    found = rows(f"nodes: [{{name: a, cards: {A100}}}]\nworkloads: [{', '.join(asked)}]")
    assert found["w"]["gate2"] == "waiting"
    assert found["v"]["gate3"] == "Ready"


def test_a_manufacturer_that_the_fleet_has_none_of_is_refused_by_gate_1() -> None:
    row = rows(f"nodes: [{{name: a, cards: {A100}}}]\nworkloads: [{workload('w', '{amd.com/gpu: 1}')}]")["w"]
    assert row["gate1"] == "refused"
    assert "none of amd" in row["message"]
