"""`gpustack-ctl lint --kubeconfig`: judged by the cluster's own InstanceTypes, and what it says is what is stored."""

import json
import subprocess
import sys

import anyio
import yaml

from gpustack_ctl.accel.units import stands_for
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.resources import PODS
from gpustack_ctl.localcluster import LocalCluster
from tests.integration.webhooks.conftest import Pool
from tests.integration.webhooks.objects import pod
from tests.integration.webhooks.replica import Replica

SIX_GIB = {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-mib": "6144"}


async def test_a_manifest_is_judged_by_the_pools_of_a_cluster_as_the_webhook_judges_it(
    control_plane: LocalCluster, kube: Kube, namespace: str, pool: Pool, replica: Replica
):
    manifest = {"apiVersion": "v1", "kind": "Pod", **pod("quarter", namespace, pool.queue, SIX_GIB)}
    argv = [sys.executable, "-m", "gpustack_ctl", "lint", "-", "--output", "json"]
    done = await anyio.run_process(
        [*argv, "--kubeconfig", str(control_plane.kubeconfig)],
        input=yaml.safe_dump(manifest).encode(),
        stderr=subprocess.PIPE,
        check=True,
    )
    (found,) = json.loads(done.stdout)
    stored = (await kube.create(PODS, manifest))["spec"]["containers"][0]["resources"]["limits"]
    assert found["admitted"]
    assert found["container"]["main"].keys() == stored.keys()
    assert all(stands_for(stored[key], int(value)) for key, value in found["container"]["main"].items())
