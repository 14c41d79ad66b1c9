"""What the agent shares with the kubelet, and what it needs of the disk."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import anyio

from gpustack_ctl.agent.pod_resources import PodResources, PodResourcesUnavailable
from gpustack_ctl.agent.preflight.finding import Finding, State
from gpustack_ctl.agent.sockets import socket_address

_CONNECT_SECONDS = 2.0


def state_directory(directory: Path) -> Finding:
    """Journal and markers are on this disk before anything is answered, so it must take a write and a sync."""
    return _writable("state directory", directory, "give the agent a writable --state-dir on a disk with room")


def plugin_directory(kubelet_dir: Path) -> Finding:
    """Where the plugins put their sockets. Only the kubelet makes it: a directory of our own would be the wrong one."""
    directory = kubelet_dir / "device-plugins"
    remedy = f"mount the node's {directory} into the agent's Pod, writable, or name the right --kubelet-dir"
    if not directory.is_dir():
        return Finding("kubelet plugin directory", State.UNAVAILABLE, f"{directory} is not there", remedy)
    return _writable("kubelet plugin directory", directory, remedy)


async def plugin_socket(kubelet_dir: Path) -> Finding:
    """Where plugins register."""
    path = kubelet_dir / "device-plugins" / "kubelet.sock"
    try:
        with anyio.fail_after(_CONNECT_SECONDS), socket_address(path) as address:
            stream = await anyio.connect_unix(address)
        await stream.aclose()
    except (OSError, TimeoutError) as error:
        return Finding(
            "kubelet registration socket",
            State.UNAVAILABLE,
            f"{path}: {_why(error)}",
            "start the kubelet, or name its directory with --kubelet-dir",
        )
    return Finding("kubelet registration socket", State.OK, f"{path} answers")


async def pod_resources(kubelet_dir: Path, *, wanted: bool) -> Finding:
    """The kubelet's list of admitted Pods, which says whose turn an allocation is."""
    check = "kubelet pod-resources socket"
    if not wanted:
        return Finding(check, State.NOT_DECLARED, "GPUSTACK_DEVICE_PLUGIN_IDENTIFY_BY_KUBELET is off")
    with PodResources(kubelet_dir) as kubelet:
        try:
            admitted = await kubelet.admitted()
        except PodResourcesUnavailable as error:
            return Finding(
                check,
                State.UNAVAILABLE,
                str(error),
                "mount the node's pod-resources directory too; without it Pods are told apart by guessing",
            )
    return Finding(check, State.OK, f"lists {len(admitted)} Pods")


def _writable(check: str, directory: Path, remedy: str) -> Finding:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(b"preflight")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return Finding(check, State.UNAVAILABLE, f"{directory}: {_why(error)}", remedy)
    return Finding(check, State.OK, f"{directory} takes writes")


def _why(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
