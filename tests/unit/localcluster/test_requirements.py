"""One message names everything that a machine lacks."""

import os
from pathlib import Path

import pytest

from gpustack_ctl.localcluster import requirements
from gpustack_ctl.localcluster.errors import LocalClusterError, first_error


def test_all_that_is_missing_is_named_once_with_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for present in ("unshare", "mount", "setpriv", "nsenter", "flock"):
        (tmp_path / present).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(requirements, "CNI", tmp_path / "cni")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(LocalClusterError) as refused:
        requirements.check_kubelet()
    assert "containerd, ctr, runc, busybox" in refused.value.message
    packages = "apt-get install -y busybox-static containerd containernetworking-plugins runc"
    assert refused.value.remedy.startswith(packages)
    assert "--no-kubelet" in refused.value.remedy


def test_a_kubelet_without_root_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(requirements, "_may_enter_user_namespaces", lambda: True)
    with pytest.raises(LocalClusterError, match="need root") as refused:
        requirements.check_kubelet()
    assert "--no-kubelet" in refused.value.remedy


def test_without_user_namespaces_it_says_which_switch_to_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(requirements, "_may_enter_user_namespaces", lambda: False)
    with pytest.raises(LocalClusterError, match="user namespace") as refused:
        requirements.check_platform()
    assert "unprivileged_userns_clone" in refused.value.remedy


def test_another_system_is_pointed_at_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements.sys, "platform", "darwin")
    with pytest.raises(LocalClusterError, match="needs Linux"):
        requirements.check_platform()


def test_our_own_error_is_found_in_whatever_a_task_group_raised() -> None:
    ours = LocalClusterError("etcd ended")
    assert first_error(ExceptionGroup("a", [ValueError(), ExceptionGroup("b", [ours])])) is ours
    assert first_error(ExceptionGroup("a", [ValueError()])) is None
