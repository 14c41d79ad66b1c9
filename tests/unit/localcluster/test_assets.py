"""Where the programs come from, and what is said when they cannot come."""

import fcntl
from pathlib import Path

import anyio
import pytest

from gpustack_ctl.localcluster import build
from gpustack_ctl.localcluster.assets import find_assets
from gpustack_ctl.localcluster.build import ensure_built, find_go
from gpustack_ctl.localcluster.errors import LocalClusterError
from gpustack_ctl.localcluster.progress import Quiet
from gpustack_ctl.localcluster.versions import PROGRAMS, cache_directory, cache_name


class Heard(Quiet):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.spoken = anyio.Event()

    def say(self, message: str) -> None:
        self.said.append(message)
        self.spoken.set()


def fill(directory: Path) -> None:
    (directory / "manifests" / "crd").mkdir(parents=True)
    for name in (*PROGRAMS, "manifests/webhooks.yaml"):
        (directory / name).touch()


def go(directory: Path, version: str) -> None:
    """A program of that name which knows its version and nothing else."""
    program = directory / "go"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)


def test_the_cache_is_named_after_what_the_module_pins() -> None:
    assert cache_name().startswith("k1.36.")
    assert "-kueue0.19." in cache_name()


async def test_a_directory_that_the_user_names_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    monkeypatch.setenv("GPUSTACK_KUBE_ASSETS", str(tmp_path))
    assert (await find_assets(Quiet())).program("etcd") == str(tmp_path / "etcd")


async def test_a_named_directory_that_lacks_something_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    (tmp_path / "kubelet").unlink()
    monkeypatch.setenv("GPUSTACK_KUBE_ASSETS", str(tmp_path))
    with pytest.raises(LocalClusterError, match="lacks kubelet"):
        await find_assets(Quiet())


async def test_what_is_in_the_cache_is_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUSTACK_KUBE_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    fill(cache_directory())
    assert (await find_assets(Quiet())).directory == tmp_path / "gpustack-ctl" / "kube" / cache_name()


async def test_without_go_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(build, "_go_of_package", lambda: None)
    with pytest.raises(LocalClusterError, match="there is no Go here") as refused:
        await find_go()
    assert "--extra local" in refused.value.remedy


async def test_a_go_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(tmp_path, "go1.19.8")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(build, "_go_of_package", lambda: None)
    with pytest.raises(LocalClusterError, match=r"go is go1\.19\.8"):
        await find_go()


async def test_an_old_go_on_path_gives_way_to_that_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "package").mkdir()
    go(tmp_path, "go1.19.8")
    go(tmp_path / "package", "go1.27.3")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(build, "_go_of_package", lambda: str(tmp_path / "package" / "go"))
    assert await find_go() == str(tmp_path / "package" / "go")


async def test_a_second_builder_waits_for_the_first_and_says_so(tmp_path: Path) -> None:
    goal, progress = tmp_path / "kube", Heard()
    with (tmp_path / "kube.lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: ensure_built(goal, progress, complete=lambda: goal.exists()))
            with anyio.fail_after(5):
                await progress.spoken.wait()
            fill(goal)
            fcntl.flock(first, fcntl.LOCK_UN)
    assert progress.said == [f"another process is building {goal}; waiting for it"]
