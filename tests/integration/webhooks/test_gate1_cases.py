"""The table of gate 1's rules, asked of the real API server: as a Pod, and as the template of a Job."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from gpustack_ctl.accel.units import stands_for
from gpustack_ctl.controllers import crd_install
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import Invalid
from gpustack_ctl.kube.objects import Obj, name_of
from gpustack_ctl.kube.resources import INSTANCE_TYPES, JOBS, NAMESPACES, PODS, Resource
from gpustack_ctl.localcluster import LocalCluster
from tests.gate1.cases import CASES, Case, instance_types, queue_of
from tests.integration.webhooks.replica import running_replica

NAMESPACE = "gate1-cases"


@pytest.fixture(scope="module")
async def server(control_plane: LocalCluster) -> AsyncIterator[Kube]:
    """The webhooks registered, and the pools that the table speaks of."""
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig)) as kube:
        await crd_install.ensure(kube)
        await kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        for found in instance_types():
            await kube.create(INSTANCE_TYPES, found)
            await kube.patch(INSTANCE_TYPES, name_of(found), {"status": found["status"]}, subresource="status")
        async with running_replica(kube, NAMESPACE):
            yield kube
        with anyio.CancelScope(shield=True):
            for found in instance_types():
                await kube.delete(INSTANCE_TYPES, name_of(found))
            await kube.delete(NAMESPACES, NAMESPACE)


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of object, and where the Pod's spec stands in it."""

    resource: Resource
    at: tuple[str, ...]

    def object(self, case: Case) -> Obj:
        metadata = {
            "name": "case",
            "namespace": NAMESPACE,
            "labels": {"kueue.x-k8s.io/queue-name": queue_of(case.pool)},
        }
        inner: Any = case.spec
        for name in reversed(self.at):
            inner = {name: inner}
        return {"metadata": metadata, **inner}

    def spec(self, obj: Any) -> Any:
        for name in self.at:
            obj = obj[name]
        return obj


SHAPES = (Shape(PODS, ("spec",)), Shape(JOBS, ("spec", "template", "spec")))


@pytest.mark.parametrize("shape", SHAPES, ids=("Pod", "Job"))
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_the_api_server_answers_as_the_function_does(server: Kube, case: Case, shape: Shape):
    if case.refused:
        with pytest.raises(Invalid) as refusal:
            await server.create(shape.resource, shape.object(case), dry_run=True)
        causes = refusal.value.details["causes"]
        assert (refusal.value.status, refusal.value.reason) == (422, "Invalid")
        at = ".".join(shape.at)
        assert sorted((cause["reason"], cause["field"].removeprefix(at)) for cause in causes) == sorted(case.refused)
        assert case.says in refusal.value.message
        return
    spec = shape.spec(await server.create(shape.resource, shape.object(case), dry_run=True))
    assert ("affinity" in spec) is case.pinned
    for container, derived in zip([*spec.get("initContainers", ()), *spec["containers"]], case.folded, strict=False):
        for side in ("limits", "requests"):
            found = container["resources"].get(side, {})
            assert all(stands_for(found.get(key), int(value)) for key, value in derived.items()), (side, found)
