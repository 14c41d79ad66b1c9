"""How the commands fail: one plain message on stderr, and the exit code of the table."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from gpustack_ctl.cli import cli

NOWHERE = "https://127.0.0.1:9"


def spawn(*arguments: str | Path, home: Path) -> subprocess.Popen[str]:
    """The command, on a machine where nothing is configured."""
    argv = [sys.executable, "-m", "gpustack_ctl", *map(str, arguments)]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "GPUSTACK"))}
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**env, "HOME": str(home)}
    )


def run(*arguments: str | Path, home: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    with spawn(*arguments, home=home) as process:
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.fixture
def unreachable(tmp_path: Path) -> Path:
    """A kubeconfig of a cluster that is not there."""
    file = tmp_path / "kubeconfig"
    file.write_bytes(
        orjson.dumps(
            {
                "current-context": "there",
                "clusters": [{"name": "there", "cluster": {"server": NOWHERE}}],
                "users": [{"name": "me", "user": {"token": "secret"}}],
                "contexts": [{"name": "there", "context": {"cluster": "there", "user": "me"}}],
            }
        )
    )
    return file


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_an_unreachable_api_server_is_one_line_with_advice(unreachable: Path, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("kind: Pod\nmetadata: {name: a}\n")
    assert run("lint", tmp_path / "pod.yaml", "--kubeconfig", unreachable, "--output", "json", home=tmp_path) == (
        3,
        "",
        f"gpustack-ctl: {NOWHERE} cannot be reached: connection refused; "
        "is the cluster up, and are --kubeconfig and --context the right ones?\n",
    )


@pytest.mark.parametrize(("text", "said"), [(None, "no such file"), ("- a\n- b\n", "is not a kubeconfig")])
def test_a_bad_kubeconfig_is_bad_input_and_named(text: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    if text is not None:
        file.write_text(text)
    code, _, err = run("manager", "--metrics-port", "0", "--kubeconfig", file, home=tmp_path)
    assert code == 2, err
    assert err.startswith(f"gpustack-ctl: kubeconfig {file}")
    assert said in err
    assert len(err.splitlines()) == 1


def test_no_kubeconfig_at_all_says_where_one_was_looked_for(tmp_path: Path) -> None:
    code, _, err = run("manager", home=tmp_path)
    assert code == 2
    assert "there is no --kubeconfig, no KUBECONFIG, no ~/.kube/config" in err


@pytest.mark.parametrize(
    ("inventory", "said"),
    [
        ("cards:\n- {model: NVIDIA A10G, manufacturer: nvidia, count: four, memoryMib: 24576}\n", ":2: cards[0].count"),
        (None, "No such file"),
    ],
)
def test_a_bad_inventory_names_file_line_and_field(
    inventory: str | None, said: str, unreachable: Path, tmp_path: Path
) -> None:
    file = tmp_path / "inventory.yaml"
    if inventory is not None:
        file.write_text(inventory)
    code, _, err = run(
        *("node-agent", "--kubeconfig", unreachable, "--state-dir", tmp_path / "state"),
        *("--detector", "simulated", "--inventory", file),
        *("--detector", "simulated", "--metrics-port", "0"),
        home=tmp_path,
    )
    assert code == 2, err
    assert str(file) in err
    assert said in err
    assert "Traceback" not in err


def test_a_taken_metrics_port_is_named(unreachable: Path, taken_port: int, tmp_path: Path) -> None:
    code, _, err = run("manager", "--kubeconfig", unreachable, "--metrics-port", str(taken_port), home=tmp_path)
    assert code == 3
    assert f":{taken_port}: Address already in use; choose another port with --metrics-port" in err


def test_a_role_waits_for_an_api_server_that_is_away_says_so_once_and_ends_when_told(
    unreachable: Path, tmp_path: Path
) -> None:
    with spawn("manager", "--kubeconfig", unreachable, "--metrics-port", "0", home=tmp_path) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        time.sleep(3)  # several tries
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=20)[1]
    assert process.returncode == 0, rest
    said = [line for line in (first + rest).splitlines() if "cannot be reached" in line]
    assert len(said) == 1, said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["manager", "--webhook-port", "https"], "--webhook-port"),
        (["run", "--roles", "manger"], "name manager, node-agent or both"),
        (["local", "up", "--fake-nodes", "-1"], "--fake-nodes"),
        (["demo", "--inventory", "/nowhere.yaml"], "--inventory"),
    ],
)
def test_wrong_usage_names_the_flag(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.parametrize(
    ("variable", "value"), [("GPUSTACK_HOLD_RESERVE_AFTER", "5m"), ("GPUSTACK_TOPOLOGY_LEVELS", "not a label")]
)
def test_a_variable_that_cannot_be_read_is_named_before_the_manager_starts(variable: str, value: str) -> None:
    done = CliRunner().invoke(cli, ["manager"], env={variable: value})
    assert done.exit_code == 2
    assert variable in done.output


def test_the_status_of_no_cluster_is_no(tmp_path: Path) -> None:
    code, out, _ = run("local", "status", "--dir", tmp_path / "run", "--output", "json", home=tmp_path)
    assert code == 1
    assert orjson.loads(out)["up"] is False


def test_a_flag_is_read_from_the_environment() -> None:
    done = CliRunner().invoke(cli, ["crds"], env={"GPUSTACK_CTL_OUTPUT": "json"})
    assert orjson.loads(done.output)["kind"] == "List"
