"""`gpustack-ctl simulate`: what it prints where, and its exit codes."""

from pathlib import Path

import orjson
import pytest

from gpustack_ctl.cli import cli
from gpustack_ctl.outcome import exit_code
from tests.unit.simulate.builders import A100, whole, workload


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "fleet.yaml"
    file.write_text(f"nodes: [{{name: a, cards: {A100}}}]\nworkloads: [{workload('w', whole(9))}]\n")
    return file


def test_json_is_one_document_on_stdout_and_nothing_else(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(cli, ["simulate", str(scenario), "--output", "json"]) == 0
    document = orjson.loads(capsys.readouterr().out)
    assert [row["workload"] for row in document["workloads"]] == ["w"]
    assert {"admitted", "held", "refused", "utilisation", "fragmentation", "seconds"} <= document["totals"].keys()


def test_text_names_who_waits_and_why(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(cli, ["simulate", str(scenario)]) == 0
    assert "w: asks for 14400000 credits" in capsys.readouterr().out


def test_a_scenario_that_cannot_be_read_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("nodes: []\nworkload: []\n")
    assert exit_code(cli, ["simulate", str(file), "--output", "json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{file}:2: workload" in captured.err
    assert "did you mean workloads?" in captured.err
