"""How the commands fail against a real API server: one plain line, and the exit code of the table."""

import socket
import subprocess
import sys
from pathlib import Path

from anyio import to_thread

from gpustack_ctl.localcluster import LocalCluster


async def run(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and stderr of the command."""
    argv = [sys.executable, "-m", "gpustack_ctl", *map(str, arguments)]
    done = await to_thread.run_sync(
        lambda: subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    )
    return done.returncode, done.stderr


async def test_a_user_without_the_right_is_told_so_in_one_line_with_advice(
    control_plane: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "pod.yaml").write_text("kind: Pod\nmetadata: {name: a}\n")
    kubeconfig = control_plane.kubeconfig_for("passer-by")
    code, err = await run("lint", tmp_path / "pod.yaml", "--kubeconfig", kubeconfig)
    assert code == 3
    assert len(err.splitlines()) == 1, err
    assert 'User "passer-by" cannot list resource "instancetypes"' in err
    assert "name a user who may with --kubeconfig or --context" in err


async def test_a_demonstration_that_may_not_look_ends_before_it_touches_anything(control_plane: LocalCluster) -> None:
    code, err = await run("demo", "--once", "--kubeconfig", control_plane.kubeconfig_for("passer-by"))
    assert code == 3
    assert len(err.splitlines()) == 1, err
    assert 'User "passer-by" cannot get resource "customresourcedefinitions"' in err


async def test_a_taken_webhook_port_is_named(control_plane: LocalCluster, namespace: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, err = await run(
            *("manager", "--kubeconfig", control_plane.kubeconfig, "--namespace", namespace, "--metrics-port", "0"),
            *("--webhook-port", str(port), "--webhook-url", f"https://127.0.0.1:{port}"),
        )
    assert code == 3, err
    said = err.splitlines()[-1]
    assert said.startswith(f"gpustack-ctl: the webhooks cannot listen on 127.0.0.1:{port}: ")
    assert said.endswith("address already in use")
    assert "Traceback" not in err
