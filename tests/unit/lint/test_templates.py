"""Where each kind keeps its Pod templates, and whose label counts."""

from typing import Any

import pytest

from gpustack_ctl.lint.templates import TemplateError, templates_of

LABELLED = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}
SPEC = {"containers": [{"name": "main"}]}


def found(kind: str, api_version: str, **fields: Any) -> list[tuple[str, str | None]]:
    return [
        (template.at, template.queue)
        for template in templates_of({"apiVersion": api_version, "kind": kind, "metadata": {}} | fields)
    ]


def test_a_pod_is_its_own_template():
    assert found("Pod", "v1", spec=SPEC, metadata=LABELLED) == [("spec", "q")]
    assert found("Pod", "v1", spec=SPEC) == [("spec", None)]


def test_a_job_is_asked_about_by_its_own_label_and_its_pods_by_theirs():
    template = {"spec": SPEC}
    assert found("Job", "batch/v1", spec={"template": template}, metadata=LABELLED) == [("spec.template.spec", "q")]
    labelled = {"metadata": LABELLED, "spec": SPEC}
    assert found("Job", "batch/v1", spec={"template": labelled}) == [("spec.template.spec", "q")]


def test_a_cron_job_hands_its_label_to_nobody_but_its_job_template_does():
    inner = {"spec": {"template": {"spec": SPEC}}}
    at = "spec.jobTemplate.spec.template.spec"
    assert found("CronJob", "batch/v1", spec={"jobTemplate": inner}, metadata=LABELLED) == [(at, None)]
    assert found("CronJob", "batch/v1", spec={"jobTemplate": {**inner, "metadata": LABELLED}}) == [(at, "q")]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"])
def test_of_what_makes_pods_the_template_s_label_counts(kind: str):
    assert found(kind, "apps/v1", spec={"template": {"spec": SPEC}}, metadata=LABELLED) == [
        ("spec.template.spec", None)
    ]
    labelled = {"template": {"metadata": LABELLED, "spec": SPEC}}
    assert found(kind, "apps/v1", spec=labelled) == [("spec.template.spec", "q")]


def test_a_pod_template_stands_outside_any_spec():
    assert found("PodTemplate", "v1", template={"metadata": LABELLED, "spec": SPEC}) == [("template.spec", "q")]


def test_a_leader_worker_set_has_one_template_or_two():
    at = "spec.leaderWorkerTemplate"
    worker, leader = {"workerTemplate": {"spec": SPEC}}, {"leaderTemplate": {"metadata": LABELLED, "spec": SPEC}}
    version = "leaderworkerset.x-k8s.io/v1"
    one = found("LeaderWorkerSet", version, spec={"leaderWorkerTemplate": worker})
    assert one == [(f"{at}.workerTemplate.spec", None)]
    both = found("LeaderWorkerSet", version, spec={"leaderWorkerTemplate": worker | leader})
    assert both == [(f"{at}.leaderTemplate.spec", "q"), (f"{at}.workerTemplate.spec", None)]


def test_somebody_s_own_kind_is_read_where_most_keep_their_template():
    spec = {"template": {"metadata": LABELLED, "spec": SPEC}}
    assert found("Rollout", "argoproj.io/v1alpha1", spec=spec) == [("spec.template.spec", "q")]


@pytest.mark.parametrize("spec", [None, {}, {"template": []}, {"template": {"spec": {"containers": {}}}}, [], "x"])
def test_a_kind_without_a_template_is_passed_over(spec: Any):
    assert found("ConfigMap", "v1", spec=spec) == []


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        ({"apiVersion": "v1", "kind": "Pod"}, "spec: Required value"),
        ({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}}, "spec.template.spec: Required value"),
        ({"apiVersion": "v1", "kind": "Pod", "spec": [1]}, "spec: Invalid value: must be an object"),
        (
            {"apiVersion": "v1", "kind": "Pod", "spec": {}, "metadata": {"labels": "x"}},
            "metadata.labels: Invalid value",
        ),
    ],
)
def test_a_kind_that_lost_its_template_is_told_where_it_belongs(obj: dict[str, Any], said: str):
    with pytest.raises(TemplateError, match=rf"^{said}"):
        list(templates_of(obj))
