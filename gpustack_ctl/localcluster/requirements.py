"""What this machine must bring along, asked before anything starts: one message that names everything missing."""

import os
import shutil
import sys
from pathlib import Path

from gpustack_ctl.localcluster.errors import LocalClusterError

CNI = Path("/usr/lib/cni")

_NEEDED = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "busybox": "busybox-static",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "flock": "util-linux",
}
"""Program → Debian package."""

_CNI_PLUGINS = ("ptp", "host-local", "loopback")
_WITHOUT_KUBELET = "`gpustack-ctl local up --no-kubelet` needs neither root nor containerd."


def check_platform() -> None:
    """The programs are Linux programs here, kept apart by Linux namespaces."""
    if not sys.platform.startswith("linux"):
        raise LocalClusterError(
            f"a local cluster needs Linux, this is {sys.platform}", "Use kind, and --kubeconfig to point at it."
        )


def check_kubelet() -> None:
    """A kubelet needs root and a container runtime."""
    check_platform()
    if os.geteuid() != 0:
        raise LocalClusterError("a kubelet and its containers need root", f"Run it as root; {_WITHOUT_KUBELET}")
    missing = {program: package for program, package in _NEEDED.items() if shutil.which(program) is None}
    missing |= {
        f"{CNI}/{plugin}": "containernetworking-plugins" for plugin in _CNI_PLUGINS if not (CNI / plugin).exists()
    }
    if missing:
        raise LocalClusterError(
            f"a kubelet needs what this machine lacks: {', '.join(missing)}",
            f"apt-get install -y {' '.join(sorted(set(missing.values())))}; {_WITHOUT_KUBELET}",
        )
