"""What the API server is told about an InstanceType; the rules themselves have tests of their own."""

from typing import Any

import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.webhooks.instance_types import InstanceTypes
from gpustack_ctl.webhooks.review import Allowed, MalformedReviewError, Question, Refused

SPEC = {
    "acceleratable": True,
    "acceleratorGroup": "nvidia-a10g",
    "os": "linux",
    "arch": "amd64",
    "unitResources": {"cpu": "8", "ram": "64Gi"},
    "localStorage": "100Gi",
}


def question(spec: Any, *, old: Any = None) -> Question:
    def stored(spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": "own"}, "spec": spec}

    return Question(
        uid="u",
        operation="CREATE" if old is None else "UPDATE",
        kind="InstanceType",
        group="worker.gpustack.ai",
        object=stored(spec),
        old=None if old is None else stored(old),
    )


@pytest.fixture
def webhooks(informers: Informers) -> InstanceTypes:
    return InstanceTypes(informers, manufacturers())


async def test_a_new_type_is_completed(webhooks: InstanceTypes) -> None:
    verdict = webhooks.mutate(question(SPEC))
    assert isinstance(verdict, Allowed)
    assert [operation["path"] for operation in verdict.patch] == ["/metadata/labels", "/spec/generalGroup"]


async def test_a_stored_type_gets_its_labels_and_no_other_spec(webhooks: InstanceTypes) -> None:
    verdict = webhooks.mutate(question(SPEC | {"displayName": "new"}, old=SPEC))
    assert isinstance(verdict, Allowed)
    assert [operation["path"] for operation in verdict.patch] == ["/metadata/labels"]


async def test_both_refuse_the_same(webhooks: InstanceTypes) -> None:
    for asked in (question({}), question(SPEC | {"os": "windows"}, old=SPEC)):
        first, second = webhooks.mutate(asked), webhooks.validate(asked)
        assert isinstance(first, Refused)
        assert first == second


async def test_a_spec_that_is_none_is_malformed(webhooks: InstanceTypes) -> None:
    with pytest.raises(MalformedReviewError):
        webhooks.mutate(question("text"))


async def test_the_api_server_asks_about_clusters_types_and_waits_for_the_answer(webhooks: InstanceTypes) -> None:
    assert all(each.essential and not each.by_queue_label for each in webhooks.webhooks())
