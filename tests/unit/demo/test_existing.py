"""A kubelet directory that cannot serve the fifth gate is named, with the way out."""

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpustack_ctl.demo.existing import UnfitClusterError, check_kubelet


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gsk-", dir="/tmp") as path:  # short, for the sockets below it
        yield Path(path)


def listen(directory: Path, name: str) -> None:
    """A socket as the kubelet's; the file outlives the listener."""
    (directory / name).mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(directory / name / "kubelet.sock"))


def test_a_directory_with_both_sockets_will_do(directory: Path) -> None:
    listen(directory, "device-plugins")
    listen(directory, "pod-resources")
    check_kubelet(directory, "node-1")


def test_one_missing_socket_is_named_alone(directory: Path) -> None:
    listen(directory, "device-plugins")
    with pytest.raises(UnfitClusterError) as refused:
        check_kubelet(directory, "node-1")
    assert str(refused.value).startswith(
        f"gate 5 needs the kubelet of node-1, and {directory}/pod-resources/kubelet.sock is not here. "
    )
    assert "--kubelet-dir" in str(refused.value)


def test_a_file_is_no_socket(directory: Path) -> None:
    for name in ("device-plugins", "pod-resources"):
        (directory / name).mkdir()
        (directory / name / "kubelet.sock").touch()
    with pytest.raises(UnfitClusterError, match=r"kubelet\.sock and .*kubelet\.sock are not here"):
        check_kubelet(directory, "node-1")
