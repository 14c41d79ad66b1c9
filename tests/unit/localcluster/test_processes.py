"""A process is ended when it is ours, and a stranger with the same pid is not."""

import os
import signal
from pathlib import Path

import anyio

from gpustack_ctl.localcluster.processes import Pid, free_ports, gone, only_child, spawn, tail
from gpustack_ctl.localcluster.run import Program, Run, remove


async def test_a_spawned_program_lives_until_it_is_killed_and_leaves_no_zombie(tmp_path: Path) -> None:
    pid = spawn(("sleep", "60"), log=tmp_path / "log")
    assert pid.alive
    pid.signal(signal.SIGKILL)
    with anyio.fail_after(5):
        await gone(pid)
    assert not await anyio.Path(f"/proc/{pid.number}").exists()


def test_a_pid_that_was_given_to_another_process_is_not_signalled() -> None:
    stranger = Pid(os.getpid(), started=1)
    assert not stranger.alive
    stranger.signal(signal.SIGKILL)  # or this test would not end well


async def test_the_program_behind_one_that_forks_is_found_and_both_are_awaited(tmp_path: Path) -> None:
    front = spawn(("sh", "-c", "sleep 60; true"), log=tmp_path / "log")
    child = await only_child(front)
    assert child.number != front.number
    child.signal(signal.SIGKILL)
    with anyio.fail_after(5):
        await gone(child)
    assert not front.alive


def test_ports_are_distinct_and_below_those_of_outgoing_connections() -> None:
    ports = free_ports(50)
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert len(set(ports)) == 50
    assert max(ports) < lowest


def test_a_log_that_was_never_written_is_no_error(tmp_path: Path) -> None:
    assert "nothing" in tail(tmp_path / "none")


def test_a_run_is_found_again_as_it_was_recorded(tmp_path: Path) -> None:
    run = Run(tmp_path, server="https://127.0.0.1:1", die_with_parent=True, leftovers=["/x"])
    run.programs["kubelet"] = Program("kubelet", ("kubelet", "--v=2"), "http://probe", {"A": "b"}, forks=True)
    run.pids["kubelet"] = Pid(7, 11)
    run.save()
    assert Run.load(tmp_path) == run


def test_nothing_is_found_where_nothing_ran(tmp_path: Path) -> None:
    assert Run.load(tmp_path) is None


def test_removing_a_run_spares_files_that_are_not_its_own(tmp_path: Path) -> None:
    for name in ("etcd", "node-a", "photos"):
        (tmp_path / name).mkdir()
    (tmp_path / "kubeconfig").touch()
    remove(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]
