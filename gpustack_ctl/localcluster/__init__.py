"""A real cluster as local processes, for the demonstration and the tests.

Users have kind; a machine without a container engine gets the same programs as plain processes. Nothing here knows
the rest of the package, so that a test which starts a cluster starts only Kubernetes and Kueue.

    async with local_cluster(ClusterSpec(directory=run, kubelet=False)) as cluster:
        ... cluster.kubeconfig ...
"""

from gpustack_ctl.localcluster.cluster import LocalCluster, down, local_cluster, status, up
from gpustack_ctl.localcluster.errors import LocalClusterError
from gpustack_ctl.localcluster.fakenodes import FakeNode, FakeNodes
from gpustack_ctl.localcluster.node import LocalNode
from gpustack_ctl.localcluster.spec import ClusterSpec, ClusterStatus, ProgramStatus, default_directory

__all__ = [
    "ClusterSpec",
    "ClusterStatus",
    "FakeNode",
    "FakeNodes",
    "LocalCluster",
    "LocalClusterError",
    "LocalNode",
    "ProgramStatus",
    "default_directory",
    "down",
    "local_cluster",
    "status",
    "up",
]
