"""Gate 1 as a client of the API server meets it, Kueue's own webhooks behind it."""

import pytest

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import Invalid
from gpustack_ctl.kube.resources import JOBS, PODS, WORKLOADS
from tests.integration.webhooks.conftest import Pool
from tests.integration.webhooks.objects import HALF, job, limits_of, pod
from tests.integration.webhooks.replica import Replica, running_replica, until

PLANNED = "device.gpustack.ai/accelerator.planned"
UNITS = "nvidia.com/gpu.sliced.units"


async def test_half_a_card_is_stored_folded(kube: Kube, namespace: str, pool: Pool, replica: Replica):
    stored = await kube.create(PODS, pod("half-a", namespace, pool.queue, HALF))
    assert limits_of(stored["spec"]) == {**HALF, UNITS: "800k", "nvidia.com/gpu.sliced.cores-percentage": "100"}
    assert stored["spec"]["schedulingGates"], "Kueue manages the Pod"


async def test_kueue_hashes_what_we_folded(kube: Kube, namespace: str, pool: Pool, replica: Replica):
    await kube.create(PODS, pod("half-a", namespace, pool.queue, HALF))
    workload = (await until("a Workload", lambda: kube.list(WORKLOADS, namespace)))[0]
    template = workload["spec"]["podSets"][0]["template"]["spec"]
    assert limits_of(template)[UNITS] == "800k"


async def test_mebibytes_are_measured_by_the_pool(kube: Kube, namespace: str, pool: Pool, replica: Replica):
    asked = {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-mib": "6144"}
    stored = await kube.create(PODS, pod("quarter", namespace, pool.queue, asked))
    assert limits_of(stored["spec"])[UNITS] == "400k"


async def test_several_shares_are_pinned_to_nodes_with_as_many_cards(
    kube: Kube, namespace: str, pool: Pool, replica: Replica
):
    stored = await kube.create(PODS, pod("share", namespace, pool.queue, {"nvidia.com/gpu.shared": "2"}))
    required = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (expression,) = required["nodeSelectorTerms"][0]["matchExpressions"]
    assert expression["key"].endswith(".count")
    assert (expression["operator"], expression["values"]) == ("Gt", ["1"])


async def test_two_slices_are_refused_with_the_field_and_what_to_write_instead(
    kube: Kube, namespace: str, pool: Pool, replica: Replica
):
    asked = {**HALF, "nvidia.com/gpu.sliced": "2"}
    with pytest.raises(Invalid) as refused:
        await kube.create(PODS, pod("wrong", namespace, pool.queue, asked))
    field = "spec.containers[0].resources.limits[nvidia.com/gpu.sliced]"
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    assert f'{field}: Invalid value: "2": must be 1' in refused.value.message
    assert "ask for whole accelerators with nvidia.com/gpu" in refused.value.message
    assert [cause["field"] for cause in refused.value.details["causes"]] == [field]


@pytest.mark.parametrize("value", ["1e30", "0.5", "-1", "100m", "0"])
async def test_a_value_that_is_no_count_is_refused_by_gate_1_and_not_by_a_later_check(
    kube: Kube, namespace: str, pool: Pool, replica: Replica, value: str
):
    with pytest.raises(Invalid, match=r"pods\.mutation\.worker\.gpustack\.ai.*write"):
        await kube.create(PODS, pod("wrong", namespace, pool.queue, {**HALF, "nvidia.com/gpu.sliced": value}))


async def test_a_queue_without_a_pool_is_named_where_the_memory_is_needed(kube: Kube, namespace: str, replica: Replica):
    asked = {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-mib": "1024"}
    with pytest.raises(Invalid, match=r'queue "nowhere".*try again'):
        await kube.create(PODS, pod("early", namespace, "nowhere", asked))
    stored = await kube.create(PODS, pod("half", namespace, "nowhere", HALF))
    assert limits_of(stored["spec"])[UNITS] == "800k"


async def test_a_pod_without_a_queue_passes_untouched(kube: Kube, namespace: str, replica: Replica):
    asked = {**HALF, "nvidia.com/gpu.sliced": "2"}
    stored = await kube.create(PODS, pod("free", namespace, None, asked))
    assert limits_of(stored["spec"]) == asked


async def test_a_plan_that_nobody_made_is_taken_off(kube: Kube, namespace: str, pool: Pool, replica: Replica):
    stored = await kube.create(PODS, pod("half", namespace, pool.queue, HALF, annotations={PLANNED: "{}", "kept": "1"}))
    assert stored["metadata"]["annotations"].get("kept") == "1"
    assert PLANNED not in stored["metadata"]["annotations"]
    stored = await kube.create(JOBS, job("train", namespace, pool.queue, HALF, annotations={PLANNED: "{}"}))
    assert PLANNED not in stored["spec"]["template"]["metadata"].get("annotations", {})


async def test_a_job_is_folded_in_its_template_and_again_when_it_changes_while_suspended(
    kube: Kube, namespace: str, pool: Pool, replica: Replica
):
    stored = await kube.create(JOBS, job("train", namespace, pool.queue, HALF))
    assert limits_of(stored["spec"]["template"]["spec"])[UNITS] == "800k"
    limit = "/spec/template/spec/containers/0/resources/limits/nvidia.com~1gpu.sliced.memory-percentage"
    change = [{"op": "replace", "path": limit, "value": "25"}]
    stored = await kube.patch(JOBS, "train", change, namespace=namespace, kind="json")
    assert limits_of(stored["spec"]["template"]["spec"])[UNITS] == "400k"


async def test_a_faulty_job_is_refused_where_its_template_stands(
    kube: Kube, namespace: str, pool: Pool, replica: Replica
):
    with pytest.raises(Invalid, match=r"spec\.template\.spec\.containers\[0\]\.resources\.limits"):
        await kube.create(JOBS, job("train", namespace, pool.queue, {**HALF, "nvidia.com/gpu.sliced": "2"}))


async def test_a_template_from_before_us_is_folded_at_its_next_update_while_suspended(
    kube: Kube, namespace: str, pool: Pool
):
    stored = await kube.create(JOBS, job("old", namespace, pool.queue, HALF))
    assert UNITS not in limits_of(stored["spec"]["template"]["spec"])
    async with running_replica(kube, namespace):
        stored = await kube.patch(JOBS, "old", {"metadata": {"annotations": {"a": "b"}}}, namespace=namespace)
    assert limits_of(stored["spec"]["template"]["spec"])[UNITS] == "800k"


async def test_the_update_that_starts_a_job_is_let_alone(kube: Kube, namespace: str, pool: Pool):
    """Kueue starts a Job in one update, template included; a fold in it would make it invalid, and the Job stuck."""
    await kube.create(JOBS, job("old", namespace, pool.queue, HALF))
    async with running_replica(kube, namespace):
        stored = await kube.patch(JOBS, "old", {"spec": {"suspend": False}}, namespace=namespace)
    assert UNITS not in limits_of(stored["spec"]["template"]["spec"])


async def test_nobody_starts_a_job_and_asks_for_more_in_one_update(
    kube: Kube, namespace: str, pool: Pool, replica: Replica
):
    await kube.create(JOBS, job("train", namespace, pool.queue, HALF))
    limit = "/spec/template/spec/containers/0/resources/limits/nvidia.com~1gpu.sliced.memory-percentage"
    change = [
        {"op": "replace", "path": "/spec/suspend", "value": False},
        {"op": "replace", "path": limit, "value": "100"},
    ]
    stored = await kube.patch(JOBS, "train", change, namespace=namespace, kind="json")
    assert limits_of(stored["spec"]["template"]["spec"])[UNITS] == "1600k"
