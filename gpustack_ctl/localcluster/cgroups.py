"""The cgroups of containers that were killed with their node: nobody else removes them.

containerd gives each container the cgroup ``/k8s.io/ID`` and keeps a directory named by that id as long as the
container is known. So the ids on disk name exactly the cgroups of this run, even when the run ended by kill -9.
"""

import contextlib
from pathlib import Path

from gpustack_ctl.localcluster.polling import until

_MOUNT = Path("/sys/fs/cgroup")
_PARENT = "k8s.io"
_BUSY = 2.0
"""Seconds to wait for a cgroup whose dead are not all buried; it takes milliseconds."""


async def remove_container_cgroups(containerd_root: Path) -> None:
    """Remove the cgroups of every container known to the containerd that wrote ``containerd_root``."""
    parents, ids = _parents(), _container_ids(containerd_root)

    async def removed() -> bool:
        left = [cgroup for parent in parents for id_ in ids if (cgroup := parent / id_).is_dir()]
        for cgroup in left:
            _remove(cgroup)
        return not left

    await until(removed, seconds=_BUSY, every=0.02)
    for parent in parents:
        _rmdir(parent)  # refused while another containerd has containers there


def _parents() -> list[Path]:
    """One in each hierarchy of cgroup v1, one in all on v2."""
    return [parent for parent in (_MOUNT / _PARENT, *_MOUNT.glob(f"*/{_PARENT}")) if parent.is_dir()]


def _container_ids(containerd_root: Path) -> set[str]:
    cri = containerd_root / "io.containerd.grpc.v1.cri"
    return {path.name for kind in ("sandboxes", "containers") for path in cri.glob(f"{kind}/*")}


def _remove(cgroup: Path) -> None:
    for child in sorted((path for path in cgroup.rglob("*") if path.is_dir()), reverse=True):
        _rmdir(child)
    _rmdir(cgroup)


def _rmdir(cgroup: Path) -> None:
    with contextlib.suppress(OSError):
        cgroup.rmdir()
