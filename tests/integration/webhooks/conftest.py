"""The webhooks against the real API server, and a pool for them to fold by."""

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from gpustack_ctl.accel.naming import entrance_name
from gpustack_ctl.controllers import crd_install
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.resources import INSTANCE_TYPES
from gpustack_ctl.localcluster import LocalCluster
from tests.integration.webhooks.replica import Replica, running_replica


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    queue: str


@pytest.fixture
async def kube(control_plane: LocalCluster) -> AsyncIterator[Kube]:
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig)) as kube:
        await crd_install.ensure(kube)
        yield kube


@pytest.fixture
async def pool(kube: Kube) -> AsyncIterator[Pool]:
    """An InstanceType of 24 GiB cards that no other test knows."""
    model = f"nvidia-w{uuid.uuid4().hex[:6]}"
    name = f"gpustack--{model}-linux-amd64"
    queue = entrance_name(name)
    await kube.create(
        INSTANCE_TYPES,
        {
            "metadata": {"name": name, "labels": {"schedule.gpustack.ai/queue-entrance": queue}},
            "spec": {
                "acceleratable": True,
                "acceleratorGroup": model,
                "os": "linux",
                "arch": "amd64",
                "unitResources": {"cpu": "8", "ram": "64Gi"},
                "localStorage": "100Gi",
                "memory": "24576Mi",
            },
        },
    )
    yield Pool(name, queue)
    await kube.delete(INSTANCE_TYPES, name)


@pytest.fixture
async def replica(kube: Kube, namespace: str, pool: Pool) -> AsyncIterator[Replica]:
    async with running_replica(kube, namespace) as replica:
        yield replica
