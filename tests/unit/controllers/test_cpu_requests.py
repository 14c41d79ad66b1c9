"""CPU on a node: what the scheduler would count."""

from typing import Any

import pytest

from gpustack_ctl.controllers.cpu_requests import CpuRequests, millicores, node_of, pod_millicores


@pytest.mark.parametrize(
    ("quantity", "milli"),
    [
        ("2", 2000),
        ("500m", 500),
        ("0.5", 500),
        ("1e1", 10_000),
        ("1k", 1_000_000),
        ("1u", 1),
        ("100n", 1),
        (4, 4000),
        ("0", 0),
    ],
)
def test_a_cpu_quantity_is_read_by_value_and_rounded_up(quantity: object, milli: int) -> None:
    assert millicores(quantity) == milli


def container(cpu: str, **fields: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **fields}


@pytest.mark.parametrize(
    ("spec", "milli"),
    [
        ({"containers": [container("1"), container("500m")]}, 1500),
        ({"containers": [{"name": "c"}]}, 0),
        ({"containers": [container("1")], "initContainers": [container("3")]}, 3000),
        ({"containers": [container("1")], "initContainers": [container("2", restartPolicy="Always")]}, 3000),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("2", restartPolicy="Always"), container("4")],
            },
            6000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
    ],
)
def test_a_pod_counts_as_the_scheduler_counts_it(spec: dict[str, Any], milli: int) -> None:
    assert pod_millicores({"spec": spec}) == milli


def test_a_finished_pod_takes_nothing_from_its_node() -> None:
    pod = {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    assert node_of(pod) == "n"
    assert node_of({**pod, "status": {"phase": "Succeeded"}}) == ""
    assert node_of({"spec": {}}) == ""


def test_a_node_is_charged_for_a_pod_while_it_runs_there_and_no_longer() -> None:
    requests = CpuRequests()
    pending = {"spec": {"containers": [container("2")]}, "status": {"phase": "Pending"}}
    bound = {"spec": {**pending["spec"], "nodeName": "n"}, "status": {"phase": "Running"}}
    requests.changed(None, pending)
    assert requests.on("n") == 0
    requests.changed(pending, bound)
    assert requests.on("n") == 2000
    requests.changed(bound, {**bound, "status": {"phase": "Succeeded"}})
    assert requests.on("n") == 0
    requests.changed({**bound, "status": {"phase": "Succeeded"}}, None)
    assert requests.on("n") == 0
