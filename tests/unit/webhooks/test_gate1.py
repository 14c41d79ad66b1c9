"""Gate 1 on questions as the API server asks them, over a real informer's copy of the InstanceTypes."""

import base64
from copy import deepcopy
from typing import Any

import orjson
import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.naming import entrance_name
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.resources import INSTANCE_TYPES
from gpustack_ctl.webhooks import review
from gpustack_ctl.webhooks.gate1 import Gate1
from gpustack_ctl.webhooks.jobs import job_webhooks
from gpustack_ctl.webhooks.pods import pod_webhooks
from gpustack_ctl.webhooks.pools import Pools
from gpustack_ctl.webhooks.review import Allowed, Question, Refused

POOL = "gpustack--nvidia-a10g-linux-amd64"
QUEUE = entrance_name(POOL)
PLANNED = "device.gpustack.ai/accelerator.planned"


def instance_type(name: str = POOL, *, entrance: str = QUEUE, memory: str = "24576Mi") -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "resourceVersion": "1",
            "labels": {"schedule.gpustack.ai/queue-entrance": entrance},
        },
        "spec": {"acceleratable": True, "acceleratorGroup": "nvidia-a10g", "memory": memory},
    }


@pytest.fixture
async def gate(informers: Informers) -> Gate1:
    table = manufacturers()
    pools = Pools(informers, table)
    informers.of(INSTANCE_TYPES).observe(instance_type())
    return Gate1(pools, table)


def spec_asking(**resources: str) -> dict[str, Any]:
    limits = {f"nvidia.com/gpu.{key.replace('__', '.').replace('_', '-')}": value for key, value in resources.items()}
    return {"containers": [{"name": "main", "image": "busybox", "resources": {"limits": limits}}]}


def pod(spec: dict[str, Any], *, queue: str | None = QUEUE, annotations: dict[str, str] | None = None) -> Question:
    metadata: dict[str, Any] = {"name": "half-a", "annotations": annotations or {}}
    if queue is not None:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    return Question("u", "CREATE", "Pod", "", {"metadata": metadata, "spec": spec})


def job(spec: dict[str, Any], *, deleting: bool = False, planned: bool = False) -> Question:
    metadata: dict[str, Any] = {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": QUEUE}}
    if deleting:
        metadata["deletionTimestamp"] = "2026-12-01T00:00:00Z"
    template: dict[str, Any] = {"spec": spec}
    if planned:
        template["metadata"] = {"annotations": {PLANNED: "{}"}}
    return Question("u", "CREATE", "Job", "batch", {"metadata": metadata, "spec": {"template": template}})


HALF = {"sliced": "1", "sliced__memory_percentage": "50"}


async def test_a_percentage_becomes_units_on_both_sides(gate: Gate1):
    verdict = pod_webhooks(gate)[0].decide(pod(spec_asking(**HALF)))
    derived = {"nvidia.com/gpu.sliced.units": "800000", "nvidia.com/gpu.sliced.cores-percentage": "100"}
    assert isinstance(verdict, Allowed)
    assert sorted(verdict.patch, key=lambda operation: operation["path"]) == [
        *(
            {
                "op": "add",
                "path": f"/spec/containers/0/resources/limits/{key.replace('/', '~1')}",
                "value": value,
            }
            for key, value in sorted(derived.items())
        ),
        {"op": "add", "path": "/spec/containers/0/resources/requests", "value": derived},
    ]


async def test_the_patch_leaves_the_question_as_it_was(gate: Gate1):
    question = pod(spec_asking(**HALF))
    before = deepcopy(question.object)
    pod_webhooks(gate)[0].decide(question)
    assert question.object == before


async def test_mebibytes_are_measured_against_the_pool_behind_the_queue(gate: Gate1):
    verdict = pod_webhooks(gate)[0].decide(pod(spec_asking(sliced="1", sliced__memory_mib="6144")))
    assert isinstance(verdict, Allowed)
    values = {operation["path"].rpartition("/")[2]: operation["value"] for operation in verdict.patch}
    assert values["nvidia.com~1gpu.sliced.units"] == "400000"


async def test_a_pool_that_is_not_there_yet_is_a_refusal_that_names_the_queue(gate: Gate1):
    asked = spec_asking(sliced="1", sliced__memory_mib="6144")
    verdict = pod_webhooks(gate)[0].decide(pod(asked, queue="nowhere"))
    assert isinstance(verdict, Refused)
    assert [error.retryable for error in verdict.errors] == [True]
    assert 'queue "nowhere"' in str(verdict.errors[0])


async def test_a_percentage_needs_no_pool(gate: Gate1):
    assert isinstance(pod_webhooks(gate)[0].decide(pod(spec_asking(**HALF), queue="nowhere")), Allowed)


async def test_of_two_types_that_claim_an_entrance_the_one_named_after_it_is_believed(
    gate: Gate1, informers: Informers
):
    informers.of(INSTANCE_TYPES).observe(instance_type("aaa", entrance=QUEUE, memory="1Mi"))
    pool = gate.pools.behind(QUEUE)
    assert pool is not None
    assert (pool.name, pool.memory_mib) == (POOL, 24576)


async def test_every_fault_of_a_pod_is_in_one_refusal(gate: Gate1):
    wrong = spec_asking(sliced="2", sliced__memory_percentage="150", sliced__cores_percentage="0.5")
    for webhook in pod_webhooks(gate):
        verdict = webhook.decide(pod(wrong))
        assert isinstance(verdict, Refused)
        said = {error.field.rpartition("[")[2].rstrip("]"): str(error) for error in verdict.errors}
        assert set(said) >= {
            "nvidia.com/gpu.sliced",
            "nvidia.com/gpu.sliced.memory-percentage",
            "nvidia.com/gpu.sliced.cores-percentage",
        }


@pytest.mark.parametrize("value", ["1e30", "0.5", "-1", "100m", "0", "x", "", "9" * 600])
async def test_a_value_that_is_no_count_is_a_denial_with_its_field(gate: Gate1, value: str):
    for webhook in pod_webhooks(gate):
        verdict = webhook.decide(pod(spec_asking(sliced=value, sliced__memory_percentage="50")))
        assert isinstance(verdict, Refused)
        assert any("limits[nvidia.com/gpu.sliced]" in error.field for error in verdict.errors)


async def test_what_another_webhook_unfolded_is_found_at_the_end(gate: Gate1):
    verdict = pod_webhooks(gate)[1].decide(pod(spec_asking(**HALF)))
    assert isinstance(verdict, Refused)
    assert any("nvidia.com/gpu.sliced.units" in error.field for error in verdict.errors)


async def test_a_folded_pod_passes_and_a_second_fold_changes_nothing(gate: Gate1):
    folded = spec_asking(**HALF, sliced__units="800k", sliced__cores_percentage="100")
    folded["containers"][0]["resources"]["requests"] = dict(folded["containers"][0]["resources"]["limits"])
    mutation, validation = pod_webhooks(gate)
    assert mutation.decide(pod(folded)) == Allowed([])
    assert validation.decide(pod(folded)) == Allowed()


async def test_an_object_without_a_queue_is_none_of_ours(gate: Gate1):
    for webhook in pod_webhooks(gate):
        assert webhook.decide(pod(spec_asking(sliced="2"), queue=None)) == Allowed()


async def test_a_plan_stays_only_on_a_pod_of_a_workload(gate: Gate1):
    mutation, _ = pod_webhooks(gate)
    plain = spec_asking()
    path = "/metadata/annotations/device.gpustack.ai~1accelerator.planned"
    assert mutation.decide(pod(plain, annotations={PLANNED: "{}"})) == Allowed([{"op": "remove", "path": path}])
    of_a_workload = {PLANNED: "{}", "kueue.x-k8s.io/workload": "pod-half-a"}
    assert mutation.decide(pod(plain, annotations=of_a_workload)) == Allowed([])


async def test_a_job_is_folded_in_its_template_and_loses_its_plan(gate: Gate1):
    verdict = job_webhooks(gate)[0].decide(job(spec_asking(**HALF), planned=True))
    assert isinstance(verdict, Allowed)
    paths = {operation["path"] for operation in verdict.patch}
    assert "/spec/template/spec/containers/0/resources/limits/nvidia.com~1gpu.sliced.units" in paths
    assert "/spec/template/metadata/annotations/device.gpustack.ai~1accelerator.planned" in paths


async def test_a_fault_in_a_job_is_named_where_it_stands(gate: Gate1):
    verdict = job_webhooks(gate)[1].decide(job(spec_asking(sliced="2", sliced__memory_percentage="50")))
    assert isinstance(verdict, Refused)
    assert verdict.errors[0].field.startswith("spec.template.spec.containers[0].resources.limits")


async def test_nothing_holds_a_job_past_its_deletion(gate: Gate1):
    for webhook in job_webhooks(gate):
        assert webhook.decide(job(spec_asking(sliced="2"), deleting=True)) == Allowed()


async def test_the_update_that_starts_a_job_is_judged_only_if_it_asks_for_something_else(gate: Gate1):
    def starting(after: dict[str, Any]) -> Question:
        before, now = job(spec_asking(**HALF)).object, job(after).object
        before["spec"]["suspend"], now["spec"]["suspend"] = True, False
        return Question("u", "UPDATE", "Job", "batch", now, before)

    for webhook in job_webhooks(gate):
        pinned = {**spec_asking(**HALF), "nodeSelector": {"kubernetes.io/hostname": "a"}}
        assert webhook.decide(starting(pinned)) == Allowed()
        assert isinstance(webhook.decide(starting(spec_asking(sliced="2"))), Refused)


async def test_a_pod_with_a_thousand_containers_is_judged(gate: Gate1):
    spec = {"containers": [{**spec_asking(**HALF)["containers"][0], "name": f"c{index}"} for index in range(1000)]}
    question = pod(spec, annotations={"note": "x" * 1024 * 1024})
    verdict = pod_webhooks(gate)[0].decide(question)
    assert isinstance(verdict, Refused)
    answer = orjson.loads(review.answer(question, verdict))
    assert "one container of a Pod may ask for a slice" in answer["response"]["status"]["message"]
    assert len(base64.b64encode(orjson.dumps(answer))) < 100_000
