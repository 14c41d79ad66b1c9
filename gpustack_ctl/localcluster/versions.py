"""Which programs make a cluster, at which versions: read from the Go module that pins them, so said once."""

import os
import re
from functools import cache
from pathlib import Path

MODULE = Path(__file__).parent / "module"

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kueue")

_PINNED = {"k": "k8s.io/kubernetes", "kueue": "sigs.k8s.io/kueue", "etcd": "go.etcd.io/etcd/server/v3"}


def cache_directory() -> Path:
    """Where programs of these versions are kept, shared by every run and every checkout of this user."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "gpustack-ctl" / "kube" / cache_name()


@cache
def cache_name() -> str:
    """For instance ``k1.36.3-kueue0.19.2-etcd3.6.13``."""
    return "-".join(f"{short}{version(module)}" for short, module in _PINNED.items())


@cache
def version(module: str) -> str:
    """The version of a module that go.mod requires, without its ``v``."""
    found = re.search(rf"^\s*{re.escape(module)} v(\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(f"{module} is not in {MODULE / 'go.mod'}")
    return found[1]


def kubernetes_version() -> str:
    return version(_PINNED["k"])


def kueue_version() -> str:
    return version(_PINNED["kueue"])
