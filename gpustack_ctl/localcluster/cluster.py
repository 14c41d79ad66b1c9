"""A real cluster as local processes: etcd, Kubernetes' programs and Kueue, bound to 127.0.0.1."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gpustack_ctl.localcluster.spec import ClusterSpec, ClusterStatus


class LocalCluster:
    """A running cluster in ``directory``."""

    directory: Path
    server: str
    kubeconfig: Path
    """Of a cluster-admin."""

    def kubeconfig_for(self, user: str, *, groups: tuple[str, ...] = ()) -> Path:
        """A kubeconfig for another user, who holds only what RBAC gives the name and the groups. Any time, no restart."""
        raise NotImplementedError

    async def kill(self, program: str) -> None:
        """SIGKILL one program ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kueue",
        "containerd@NODE", "kubelet@NODE") and wait until it is gone."""
        raise NotImplementedError

    async def start(self, program: str) -> None:
        """Start a killed program again, on the same port and data, and wait until it is ready."""
        raise NotImplementedError

    async def add_node(self, name: str) -> "LocalNode":
        """One more kubelet with its containerd; returns once the Node is Ready."""
        raise NotImplementedError

    def node(self, name: str) -> "LocalNode":
        raise NotImplementedError

    async def status(self) -> ClusterStatus:
        raise NotImplementedError

    async def down(self) -> None:
        raise NotImplementedError


class LocalNode:
    """A kubelet with its containerd, alone in a mount and PID namespace."""

    name: str
    kubelet_dir: Path
    """Host path of the node's /var/lib/kubelet: device-plugins/kubelet.sock, pod-resources/kubelet.sock."""


@asynccontextmanager
async def local_cluster(spec: ClusterSpec) -> AsyncIterator[LocalCluster]:
    """A cluster for as long as the block runs."""
    raise NotImplementedError
    yield LocalCluster()


async def up(spec: ClusterSpec) -> ClusterStatus:
    """Bring a cluster up and leave it running; on a running one: its status, nothing changed."""
    raise NotImplementedError


async def down(directory: Path) -> bool:
    """End a run and remove all of it but its logs; False when there was none."""
    raise NotImplementedError


async def status(directory: Path) -> ClusterStatus:
    """What runs in ``directory``, asked of the programs themselves."""
    raise NotImplementedError
