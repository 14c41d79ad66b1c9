"""Mount points go with the last node that needs them, and never under one that lives."""

from pathlib import Path

import pytest

from gpustack_ctl.localcluster import mountpoints


@pytest.fixture(autouse=True)
def guard_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that lives on this machine must not matter here."""
    monkeypatch.setattr(mountpoints, "GUARD", tmp_path_factory.mktemp("guard"))


def test_what_was_missing_is_made_and_removed(tmp_path: Path) -> None:
    wanted = tmp_path / "lib" / "kubelet"
    with mountpoints.made([wanted]) as leftovers:
        assert wanted.is_dir()
    assert leftovers == [str(wanted), str(wanted.parent)]
    mountpoints.remove(leftovers)
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_before_stays(tmp_path: Path) -> None:
    with mountpoints.made([tmp_path / "cni"]):
        pass
    with mountpoints.made([tmp_path / "cni"]) as leftovers:
        assert leftovers == []


def test_nothing_is_removed_while_another_node_lives(tmp_path: Path) -> None:
    with mountpoints.made([tmp_path / "kubelet"]) as first:
        mountpoints.remove(first)
        assert (tmp_path / "kubelet").is_dir()


def test_the_last_of_two_nodes_removes_what_the_first_made(tmp_path: Path) -> None:
    with mountpoints.made([tmp_path / "kubelet"]) as first, mountpoints.made([tmp_path / "kubelet"]) as second:
        mountpoints.remove(first)
    mountpoints.remove(second)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_use_by_the_machine_is_kept(tmp_path: Path) -> None:
    with mountpoints.made([tmp_path / "kubelet"]) as leftovers:
        (tmp_path / "kubelet" / "config.yaml").touch()
    mountpoints.remove(leftovers)
    assert (tmp_path / "kubelet" / "config.yaml").exists()
