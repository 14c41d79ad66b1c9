"""Finding what was asked about, and what belongs to it."""

import pytest

from gpustack_ctl.explain.subjects import NoSuchObjectError, find, pods_of, workload_of
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.reflector import Selection
from gpustack_ctl.kube.resources import PODS
from tests.unit.explain.objects import of_workload, pod, workload


def informer(*names: str) -> Informer:
    found = Informer(Selection(PODS))
    found.replace([pod(name) for name in names], 1)
    return found


def test_a_name_that_is_not_there_is_answered_with_those_that_come_near() -> None:
    with pytest.raises(NoSuchObjectError, match=r"no Pod trainer-9 in namespace team; near names: trainer-[01], "):
        find(informer("trainer-0", "trainer-1", "web"), "trainer-9", "team")


def test_a_name_that_is_in_another_namespace_is_answered_with_that() -> None:
    with pytest.raises(NoSuchObjectError, match="there is one in team"):
        find(informer("trainer"), "trainer", "default")


def test_a_pod_that_is_not_there_may_have_been_refused() -> None:
    with pytest.raises(NoSuchObjectError, match="gpustack-ctl lint"):
        find(informer(), "any", "team")


@pytest.mark.parametrize(
    "belongs",
    [
        pod("half"),
        pod("of-a-job", owners=["uid-job"]),
        pod("placed", annotations=of_workload("pod-half")),
    ],
)
def test_a_pod_belongs_to_its_workload_by_owner_by_its_job_or_by_what_kueue_wrote(belongs: dict[str, object]) -> None:
    made = workload(owners=("uid-half", "uid-job"))
    assert workload_of(belongs, [made]) == made
    assert pods_of(made, [pod("other"), belongs]) == [belongs]


def test_a_pod_of_the_same_name_elsewhere_does_not_belong() -> None:
    stranger = pod("half", annotations=of_workload("pod-half"))
    stranger["metadata"]["namespace"] = "other"
    assert workload_of(stranger, [workload()]) is None
