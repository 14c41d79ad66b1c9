"""A cluster comes up, says so, and leaves nothing; whatever the run directory held before."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from gpustack_ctl.localcluster import (
    ClusterSpec,
    ClusterStatus,
    LocalClusterError,
    down,
    local_cluster,
    status,
    up,
)
from gpustack_ctl.localcluster.api import connect
from gpustack_ctl.localcluster.polling import until
from gpustack_ctl.localcluster.run import Run

PROGRAMS = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kueue"}


@pytest.fixture
def directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="gsl-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def running(directory: Path) -> AsyncIterator[ClusterStatus]:
    yield await up(ClusterSpec(directory=directory, kubelet=False, die_with_parent=True))
    await down(directory)


def processes_of(directory: Path) -> list[str]:
    """Command lines that name the run directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(directory) in command and entry.parent.name != str(os.getpid()):
            found.append(command)
    return found


def listed(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def test_up_leaves_every_program_ready_and_status_says_so(running: ClusterStatus, directory: Path) -> None:
    assert running.up
    assert {program.name for program in running.programs} == PROGRAMS
    assert all(program.ready for program in running.programs)
    assert await status(directory) == running


async def test_a_second_up_changes_nothing(running: ClusterStatus, directory: Path) -> None:
    assert await up(ClusterSpec(directory=directory, kubelet=False)) == running


async def test_down_leaves_no_process_and_nothing_but_logs(directory: Path) -> None:
    await up(ClusterSpec(directory=directory, kubelet=False, fake_nodes=2, die_with_parent=True))
    assert processes_of(directory)
    assert await down(directory)
    assert processes_of(directory) == []
    assert listed(directory) == ["lock", "logs"]


async def test_down_where_nothing_runs_says_so(directory: Path) -> None:
    assert not await down(directory)
    assert not await down(directory / "never")
    assert not (await status(directory)).up


async def test_down_keeps_files_that_are_not_of_a_run(running: ClusterStatus, directory: Path) -> None:
    thesis = anyio.Path(directory / "thesis.txt")
    await thesis.write_text("years of work")
    await down(directory)
    assert await thesis.read_text() == "years of work"


async def test_a_program_that_died_shows_in_status_and_up_starts_afresh(
    running: ClusterStatus, directory: Path
) -> None:
    scheduler = next(program for program in running.programs if program.name == "kube-scheduler")
    os.kill(scheduler.pid, signal.SIGKILL)
    found = await status(directory)
    assert [program.name for program in found.programs if not program.ready] == ["kube-scheduler"]
    again = await up(ClusterSpec(directory=directory, kubelet=False, die_with_parent=True))
    assert again.up
    assert not {program.pid for program in again.programs} & {program.pid for program in running.programs}


async def test_a_kubelet_is_not_added_to_a_run_behind_a_persons_back(running: ClusterStatus, directory: Path) -> None:
    with pytest.raises(LocalClusterError, match="without kubelet@gpustack-local is up"):
        await up(ClusterSpec(directory=directory))


async def test_two_ups_at_once_in_one_directory_do_not_mix(directory: Path) -> None:
    async with local_cluster(ClusterSpec(directory=directory, kubelet=False, die_with_parent=True)):
        with pytest.raises(LocalClusterError, match="at work in"):
            await up(ClusterSpec(directory=directory, kubelet=False))


async def test_fake_nodes_of_a_detached_cluster_are_ready(directory: Path) -> None:
    await up(ClusterSpec(directory=directory, kubelet=False, fake_nodes=3, die_with_parent=True))
    async with connect(directory / "kubeconfig") as api:
        nodes = (await api.get("/api/v1/nodes"))["items"]
    await down(directory)
    ready = {
        node["metadata"]["name"]: condition["status"]
        for node in nodes
        for condition in node["status"]["conditions"]
        if condition["type"] == "Ready"
    }
    assert ready == {"fake-0000": "True", "fake-0001": "True", "fake-0002": "True"}


def python(function: str, directory: Path, **spec: object) -> subprocess.Popen[bytes]:
    described = f"ClusterSpec(directory=Path({str(directory)!r}), kubelet=False, **{spec!r})"
    code = (
        "import anyio; from pathlib import Path\n"
        "from gpustack_ctl.localcluster import ClusterSpec, local_cluster, up\n"
        "async def stay(spec):\n"
        "    async with local_cluster(spec):\n"
        "        await anyio.sleep_forever()\n"
        f"anyio.run({function}, {described})\n"
    )
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)


async def recorded(directory: Path, program: str) -> None:
    """Wait until a run has started a program."""

    async def started() -> bool:
        run = Run.load(directory)
        return run is not None and program in run.programs

    assert await until(started, seconds=30)


@pytest.mark.parametrize("started", ["etcd", "kube-apiserver", "kueue"])
async def test_ctrl_c_while_coming_up_leaves_nothing(directory: Path, started: str) -> None:
    with python("up", directory) as process:
        await recorded(directory, started)
        process.send_signal(signal.SIGINT)
        await anyio.to_thread.run_sync(process.wait)
    assert processes_of(directory) == []
    assert listed(directory) == ["lock", "logs"]


async def test_an_up_that_was_killed_on_its_way_is_cleared_by_the_next(directory: Path) -> None:
    with python("up", directory) as process:
        await recorded(directory, "kube-apiserver")
        process.kill()
        await anyio.to_thread.run_sync(process.wait)
    assert not (await status(directory)).up
    found = await up(ClusterSpec(directory=directory, kubelet=False))
    assert {program.name for program in found.programs if program.ready} == PROGRAMS
    await down(directory)
    assert processes_of(directory) == []


async def test_programs_die_with_a_parent_that_is_killed(directory: Path) -> None:
    with python("stay", directory, die_with_parent=True) as process:
        await recorded(directory, "kueue")
        process.kill()
        await anyio.to_thread.run_sync(process.wait)

    async def gone() -> bool:
        return not processes_of(directory)

    assert await until(gone, seconds=10)


async def test_a_directory_too_deep_for_sockets_is_refused_before_anything_starts(directory: Path) -> None:
    with pytest.raises(LocalClusterError, match="too long"):
        await up(ClusterSpec(directory=directory / ("x" * 60), kubelet=False))
    assert listed(directory) == []
