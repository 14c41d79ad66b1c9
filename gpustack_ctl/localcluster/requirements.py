"""What this machine must bring along, asked before anything starts: one message that names everything missing."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from gpustack_ctl.localcluster.errors import LocalClusterError

CNI = Path("/usr/lib/cni")

_ALWAYS = {"unshare": "util-linux", "mount": "mount", "setpriv": "util-linux"}
_NEEDED = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "busybox": "busybox-static",
    "nsenter": "util-linux",
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
    if missing := _missing(_ALWAYS):
        raise LocalClusterError(f"a local cluster needs {', '.join(missing)}", _install(missing))
    if os.geteuid() != 0 and not _may_enter_user_namespaces():
        raise LocalClusterError(
            "without root, Kueue needs a user namespace of its own, and this machine grants none",
            "Run it as root, or allow them: sysctl kernel.unprivileged_userns_clone=1 (Debian), "
            "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu).",
        )


def check_kubelet() -> None:
    """A kubelet needs root and a container runtime."""
    check_platform()
    if os.geteuid() != 0:
        raise LocalClusterError("a kubelet and its containers need root", f"Run it as root; {_WITHOUT_KUBELET}")
    missing = _missing(_NEEDED)
    plugins = (CNI / plugin for plugin in _CNI_PLUGINS)
    missing |= {str(plugin): "containernetworking-plugins" for plugin in plugins if not plugin.exists()}
    if missing:
        raise LocalClusterError(
            f"a kubelet needs what this machine lacks: {', '.join(missing)}", f"{_install(missing)}; {_WITHOUT_KUBELET}"
        )


def _missing(needed: Mapping[str, str]) -> dict[str, str]:
    return {program: package for program, package in needed.items() if shutil.which(program) is None}


def _install(missing: Mapping[str, str]) -> str:
    return f"apt-get install -y {' '.join(sorted(set(missing.values())))}"


def _may_enter_user_namespaces() -> bool:
    return subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True).returncode == 0
