"""The cgroups of containers that were killed with their node: nobody else removes them.

containerd gives each container the cgroup ``/k8s.io/ID`` and keeps a directory named by that id as long as the
container is known. So the ids on disk name exactly the cgroups of this run, even when the run ended by kill -9.
"""

import contextlib
from pathlib import Path

import anyio

_MOUNT = Path("/sys/fs/cgroup")
_PARENT = "k8s.io"
_TRIES = 50
"""A cgroup is busy until the last of its dead is buried: milliseconds."""


async def remove_container_cgroups(containerd_root: Path) -> None:
    """Remove the cgroups of every container known to the containerd that wrote ``containerd_root``."""
    cri = containerd_root / "io.containerd.grpc.v1.cri"
    ids = {path.name for kind in ("sandboxes", "containers") for path in cri.glob(f"{kind}/*")}
    parents = [parent for parent in (_MOUNT / _PARENT, *_MOUNT.glob(f"*/{_PARENT}")) if parent.is_dir()]
    for _ in range(_TRIES):
        left = [cgroup for parent in parents for id_ in ids if (cgroup := parent / id_).is_dir()]
        if not left:
            break
        for cgroup in left:
            _remove(cgroup)
        await anyio.sleep(0.02)
    for parent in parents:
        _rmdir(parent)  # refused while another containerd has containers there


def _remove(cgroup: Path) -> None:
    for child in sorted((path for path in cgroup.rglob("*") if path.is_dir()), reverse=True):
        _rmdir(child)
    _rmdir(cgroup)


def _rmdir(cgroup: Path) -> None:
    with contextlib.suppress(OSError):
        cgroup.rmdir()
