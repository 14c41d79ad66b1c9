"""Scenarios that cannot be read: each fault names the file, the line, the field and what to write instead."""

import pytest

from tests.unit.simulate.builders import A100, faults, whole, workload

NODES = f"nodes: [{{name: a, count: 2, cards: {A100}}}]\n"
WORK = f"workloads: [{workload('w', whole(1))}]\n"


@pytest.mark.parametrize(
    ("text", "line", "field", "advice"),
    [
        (WORK, 1, "nodes: Required value", "write at least one node"),
        (NODES, 1, "workloads: Required value", "or random"),
        (NODES + WORK + "event: []", 3, "event: Invalid value", "did you mean events?"),
        (
            "nodes: [{name: a}]\n" + WORK,
            1,
            "nodes[0].cards: Required value",
            "model, manufacturer, count and memoryMib",
        ),
        (
            f"nodes:\n- {{name: a, cards: {A100}}}\n- {{name: a, cards: {A100}}}\n" + WORK,
            3,
            "nodes[1].name",
            "another name",
        ),
        (NODES + "workloads: [{name: w}]", 2, "workloads[0].podSets: Required value", "at least one PodSet"),
        (
            NODES + "workloads: [{name: w, podSets: [{containers: [{nvidia.com/gpu.slicde: 1}]}]}]",
            2,
            "workloads[0].podSets[0].containers[0].nvidia.com/gpu.slicde",
            "did you mean nvidia.com/gpu.sliced?",
        ),
        (
            NODES + f"workloads: [{workload('w', whole(1), rest='node: a-7')}]",
            2,
            "workloads[0].node",
            "did you mean a-",
        ),
        (NODES + f"workloads: [{workload('w', whole(1), rest='pool: x')}]", 2, "workloads[0].pool", "nvidia-a100"),
        (
            NODES + f"workloads: [{workload('w', whole(1), rest='duration: long')}]",
            2,
            "workloads[0].duration",
            "seconds",
        ),
        (
            NODES + f"workloads:\n- {workload('w', whole(1))}\n- {workload('w', whole(1))}",
            4,
            "workloads[1]",
            "another name",
        ),
        (NODES + WORK + "events: [{at: 1, release: v}]", 3, "events[0].release", "there are w"),
        (NODES + WORK + "events: [{at: 1, gone: b}]", 3, "events[0].gone", "there are a-0, a-1"),
        (
            NODES + WORK + "events: [{at: 1, unhealthy: {node: a-0, card: 8}}]",
            3,
            "events[0].unhealthy.card",
            "from 0 to 7",
        ),
        (NODES + WORK + "events: [{at: 1}]", 3, "events[0]", "write release, unhealthy, healthy or gone"),
        (NODES + WORK + "random: {requests: 1}", 3, "random: Invalid value", "keep one of the two"),
        (
            NODES + "random: {requests: 1, rate: 1, meanDuration: 1, mix: {sliced: 1}}",
            2,
            "random.sizes.sliced",
            "write the sizes",
        ),
        (NODES + "random: {requests: 1, rate: 0, meanDuration: 1, mix: {}}", 2, "random.rate", "greater than 0"),
        (
            NODES + "random: {requests: 1, rate: 1, meanDuration: 1, mix: {slices: 1}}",
            2,
            "random.mix.slices",
            "no such family",
        ),
        (
            NODES + "random: {requests: 1, rate: 1, meanDuration: 1, mix: {sliced: 1}, sizes: {sliced: {101: 1}}}",
            2,
            "random.sizes.sliced.101",
            "from 1 to 100",
        ),
    ],
)
def test_a_fault_names_line_field_and_remedy(text: str, line: int, field: str, advice: str) -> None:
    found = faults(text)
    assert any(each.startswith(f"fleet.yaml:{line}: {field}") and advice in each for each in found), found


@pytest.mark.parametrize(
    ("holding", "field", "advice"),
    [
        ("{card: 9, family: exclusive}", "card", "from 0 to 7"),
        ("{card: 0, family: half}", "family", "exclusive, shared, sliced, partitioned"),
        ("{card: 0, family: sliced}", "units", "write the units"),
        ("{card: 0, family: exclusive, units: 5}", "units", "leave it out"),
        ("{card: 0, family: partitioned, profile: 9g.90gb}", "profile", "the card offers 1g.10gb"),
        ("{card: 0, family: partitioned, profile: 3g.40gb, start: 1}", "start", "may start at 0, 4"),
    ],
)
def test_a_holding_that_no_card_could_have_is_a_fault(holding: str, field: str, advice: str) -> None:
    found = faults(f"nodes: [{{name: a, cards: {A100}, holdings: [{holding}]}}]\n{WORK}")
    assert any(f"nodes[0].holdings[0].{field}" in each and advice in each for each in found), found


def test_a_holding_beyond_what_the_ones_before_left_is_a_fault() -> None:
    held = "{card: 0, family: sliced, units: 1000000}, {card: 0, family: sliced, units: 800000}"
    [fault] = faults(f"nodes: [{{name: a, cards: {A100}, holdings: [{held}]}}]\n{WORK}")
    assert "nodes[0].holdings[1]" in fault
    assert "gpu-0 sliced 63%" in fault


def test_all_faults_are_told_at_once_in_the_order_of_the_file() -> None:
    found = faults("nodes: [{nam: a}]\nworkloads: [{name: w, at: -1}]\nevents: 3\n")
    assert [int(each.split(":")[1]) for each in found] == sorted(int(each.split(":")[1]) for each in found)
    assert len(found) >= 5


def test_a_pool_must_be_named_where_the_fleet_has_several_of_the_manufacturer() -> None:
    nodes = f"nodes: [{{name: a, cards: {A100}}}, {{name: b, cards: {{model: NVIDIA A10G, memoryMib: 24576}}}}]\n"
    [fault] = faults(nodes + WORK)
    assert "workloads[0].pool: Required value" in fault
    assert "nvidia-a100-sxm4-80gb, nvidia-a10g" in fault


def test_a_workload_is_not_released_before_it_arrives() -> None:
    work = f"workloads: [{workload('w', whole(1), rest='at: 5')}]\n"
    [fault] = faults(NODES + work + "events: [{at: 3, release: w}]")
    assert "events[0].release" in fault
    assert "arrives at 5 only" in fault


def test_what_is_no_yaml_is_told_by_its_line() -> None:
    [fault] = faults("nodes: [\n")
    assert fault.startswith("fleet.yaml:2: not valid YAML")
