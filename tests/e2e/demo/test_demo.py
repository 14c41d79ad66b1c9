"""The product's main job, as a user runs it: one command, six Pods, five gates, on the real programs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The document of one `demo --once --output json`."""
    return run_demo(tmp_path_factory.mktemp("state"))


def run_demo(state: Path, *flags: str) -> dict[str, Any]:
    told = subprocess.run(
        [sys.executable, "-m", "gpustack_ctl", "demo", "--once", "--output", "json", *flags],
        capture_output=True,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        timeout=300,
    )
    document: dict[str, Any] = orjson.loads(told.stdout)  # nothing but the document is on stdout
    assert told.returncode == (0 if document["ok"] else 1), told.stderr.decode()
    return document


def pod(story: dict[str, Any], name: str) -> dict[str, Any]:
    return next(pod for pod in story["pods"] if pod["name"] == name)


def answers(pod: dict[str, Any], gate: int) -> list[str]:
    return [answer["answered"] for answer in pod["gates"] if answer["gate"] == gate]


def test_the_whole_story_happens(story: dict[str, Any]) -> None:
    assert story["ok"], story
    assert [finding["claim"] for finding in story["findings"] if not finding["holds"]] == []


def test_every_running_pod_passed_all_five_gates(story: dict[str, Any]) -> None:
    for name in ("half-a", "half-b", "share", "whole", "late"):
        assert [answers(pod(story, name), gate)[-1] for gate in range(1, 6)] == ["passed"] * 5, pod(story, name)


def test_two_halves_share_one_card_and_the_share_takes_two_others(story: dict[str, Any]) -> None:
    half_a, half_b, share = (pod(story, name)["cards"] for name in ("half-a", "half-b", "share"))
    assert half_a == half_b
    assert len(half_a) == 1
    assert len(set(share)) == 2
    assert not set(share) & set(half_a)


def test_the_latecomer_is_held_by_the_ledger_and_let_in_by_itself(story: dict[str, Any]) -> None:
    late = pod(story, "late")
    assert answers(late, 3) == ["held", "passed"]
    assert late["cards"] == pod(story, "whole")["cards"]
    assert story["releaseToAdmittedSeconds"] > 0


def test_the_senseless_request_is_refused_with_what_to_write_instead(story: dict[str, Any]) -> None:
    wrong = pod(story, "wrong")
    assert wrong["phase"] == "Refused"
    assert "spec.containers[0].resources.limits[nvidia.com/gpu.sliced]" in wrong["gates"][0]["message"]


def test_every_container_sees_its_own_cards_in_its_real_environment(story: dict[str, Any]) -> None:
    for name in ("half-a", "half-b", "share", "whole", "late"):
        told = pod(story, name)
        assert sorted(told["env"]["NVIDIA_VISIBLE_DEVICES"].split(",")) == sorted(told["cards"])


def test_the_cards_at_the_end_are_the_ledger_of_the_node(story: dict[str, Any]) -> None:
    by_id = {card["id"]: card for card in story["cards"]}
    assert len(by_id) == 4
    assert all(card["allocated"] + card["remaining"] == 1_600_000 for card in by_id.values())
    assert by_id[pod(story, "half-a")["cards"][0]] | {"id": ""} == {
        "id": "",
        "mode": 3,
        "allocated": 1_600_000,
        "remaining": 0,
    }
