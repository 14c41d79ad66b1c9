"""The Workload webhook on questions as the API server asks them, over what real informers hold."""

import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.labels import PLACEMENT_PIN, RESOURCE_TYPE
from gpustack_ctl.accel.pins import Pin, carries, format_pin
from gpustack_ctl.crds.setting import WORKLOAD_FIT_AFFINITY
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.resources import CLUSTER_QUEUES, INSTANCE_TYPES, LOCAL_QUEUES, SETTINGS, Resource
from gpustack_ctl.webhooks.registration import Address, configuration
from gpustack_ctl.webhooks.review import Allowed, Question
from gpustack_ctl.webhooks.workloads import WorkloadPins

POOL = "gpustack--nvidia-a10g-linux-amd64"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HALF = {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-percentage": "50"}
FIT = {"key": "sliced-max-free-units.fit.gpustack.ai/nvidia-a10g", "operator": "Gt", "values": ["799999"]}
ONTO = Pin(nodes=("gpu-1",))


class Held:
    """What the informers hold; nothing of it comes from a server."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self.pins = WorkloadPins(informers, manufacturers())
        self.put(LOCAL_QUEUES, "entrance", {"clusterQueue": POOL}, namespace="team")
        self.put(CLUSTER_QUEUES, POOL, {}, labels={RESOURCE_TYPE: "instancetypes"})
        self.put(INSTANCE_TYPES, POOL, {"acceleratable": True, "acceleratorGroup": "nvidia-a10g", "memory": "24576Mi"})

    def put(self, resource: Resource, name: str, spec: dict[str, Any], **metadata: Any) -> None:
        written = {"name": name, "resourceVersion": "1", **metadata}
        self._informers.of(resource).put({"metadata": written, "spec": spec})

    def decided(self, workload: dict[str, Any], *, old: dict[str, Any] | None = None) -> dict[str, Any]:
        """The PodSet's template as the webhook leaves it."""
        operation = "CREATE" if old is None else "UPDATE"
        verdict = self.pins.decide(Question("u", operation, "Workload", "kueue.x-k8s.io", workload, old))
        assert isinstance(verdict, Allowed)
        spec = copy.deepcopy(workload)["spec"]["podSets"][0]["template"]["spec"]
        for operation_ in verdict.patch:
            if operation_["path"].endswith("/affinity") and operation_["op"] == "remove":
                spec.pop("affinity")
                continue
            assert operation_["path"].startswith("/spec/podSets/0/template/spec/affinity"), operation_
            assert operation_["path"].endswith("/affinity"), "these Workloads have no affinity of their own"
            spec["affinity"] = operation_["value"]
        return {"spec": spec}


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Held]:
    config = tmp_path / "kubeconfig"
    named = {"name": "here"}
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "clusters": [{**named, "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{**named, "user": {"token": "t"}}],
                "contexts": [{**named, "context": {"cluster": "here", "user": "here"}}],
            }
        )
    )
    async with Kube.connect(kubeconfig=str(config)) as kube:
        yield Held(Informers(kube))


def workload(*, limits: dict[str, str] | None = None, pin: Pin | None = None, reserved: bool = False) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": HALF if limits is None else limits}}
    return {
        "metadata": {
            "name": "w",
            "namespace": "team",
            "annotations": {} if pin is None else {PLACEMENT_PIN: format_pin(pin)},
        },
        "spec": {
            "queueName": "entrance",
            "podSets": [{"name": "main", "template": {"spec": {"containers": [container]}}}],
        },
        "status": {"conditions": [{"type": "QuotaReserved", "status": "True" if reserved else "False"}]},
    }


def expressions(template: dict[str, Any]) -> list[dict[str, Any]]:
    (term,) = template["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    found: list[dict[str, Any]] = term["matchExpressions"]
    return found


async def test_a_new_workload_is_pinned_to_nodes_with_room_for_its_slice(held: Held) -> None:
    assert FIT in expressions(held.decided(workload()))


async def test_a_workload_that_needs_no_pin_is_left_alone(held: Held) -> None:
    asked = workload(limits={"nvidia.com/gpu": "1"})
    assert held.pins.decide(Question("u", "CREATE", "Workload", "kueue.x-k8s.io", asked)) == Allowed([])


async def test_the_annotation_is_rendered_while_there_is_no_reservation(held: Held) -> None:
    pinned = workload(pin=ONTO)
    template = held.decided(pinned, old=workload())
    assert carries(template, ONTO) and FIT in expressions(template)
    reserved = workload(reserved=True)
    assert held.pins.decide(Question("u", "UPDATE", "Workload", "kueue.x-k8s.io", pinned, reserved)) == Allowed()


async def test_a_pod_set_that_kueue_rebuilds_is_pinned_again(held: Held) -> None:
    assert carries(held.decided(workload(pin=ONTO), old=workload(pin=ONTO)), ONTO)


async def test_a_forged_annotation_pins_nothing(held: Held) -> None:
    forged = workload()
    forged["metadata"]["annotations"][PLACEMENT_PIN] = '{"v":1,"nodes":7}'
    assert carries(held.decided(forged), None)


async def test_with_the_setting_off_nothing_is_pinned_and_what_was_is_taken_back(held: Held) -> None:
    pinned = workload(pin=ONTO)
    pinned["spec"]["podSets"][0]["template"] = held.decided(pinned)
    held.put(SETTINGS, WORKLOAD_FIT_AFFINITY, {"value": "false"})
    assert "affinity" not in held.decided(pinned, old=pinned)["spec"]
    assert "affinity" not in held.decided(workload(pin=ONTO))["spec"]


@pytest.mark.parametrize(
    "change",
    [
        lambda held: held.put(
            LOCAL_QUEUES, "entrance", {"clusterQueue": "other"}, namespace="team", resourceVersion="2"
        ),
        lambda held: held.put(CLUSTER_QUEUES, POOL, {}, resourceVersion="2"),
        lambda held: held.put(INSTANCE_TYPES, POOL, {"acceleratable": False}, resourceVersion="2"),
    ],
)
async def test_the_workloads_of_other_queues_are_nobodys_business(held: Held, change: Any) -> None:
    change(held)
    asked = workload(pin=ONTO)
    assert held.pins.decide(Question("u", "CREATE", "Workload", "kueue.x-k8s.io", asked)) == Allowed()


async def test_an_api_server_that_cannot_reach_us_goes_on_without(held: Held) -> None:
    whole = configuration([held.pins.webhook()], mutating=True, address=Address(url="https://h:1"), trusted=None)
    (entry,) = whole["webhooks"]
    assert entry["failurePolicy"] == "Ignore"
    assert entry["objectSelector"] == {}
    assert [condition["name"] for condition in entry["matchConditions"]] == ["no-quota-is-reserved"]
