"""Kueue's configuration and webhooks, as a local run needs them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_ctl.localcluster import kueue


def configured(wanted: dict[str, Any], certificates: Path) -> Any:
    return kueue.configuration(wanted, webhook_port=1, health_port=2, metrics_port=3, certificates=certificates)


def test_quotas_ignore_what_a_queue_does_not_declare(tmp_path: Path) -> None:
    assert configured({}, tmp_path)["resources"] == {"quotaCheckStrategy": "IgnoreUndeclared"}


def test_what_the_caller_wants_is_merged_and_his_lists_replace(tmp_path: Path) -> None:
    transformations = [{"input": "nvidia.com/gpu", "strategy": "Replace"}]
    frameworks = ["pod", "batch/job", "jobset.x-k8s.io/jobset"]
    wanted = {"resources": {"transformations": transformations}, "integrations": {"frameworks": frameworks}}
    config = configured(wanted, tmp_path)
    assert config["resources"] == {"quotaCheckStrategy": "IgnoreUndeclared", "transformations": transformations}
    assert config["integrations"]["frameworks"] == frameworks


def test_ports_certificates_and_gates_of_a_local_run_win(tmp_path: Path) -> None:
    wanted = {"webhook": {"port": 9443}, "featureGates": {"VisibilityOnDemand": True, "ElasticJobs": True}}
    config = configured(wanted, tmp_path)
    assert config["webhook"] == {"host": "127.0.0.1", "port": 1, "certDir": str(tmp_path)}
    assert config["featureGates"]["VisibilityOnDemand"] is False
    assert config["featureGates"]["ElasticJobs"] is True


def webhook(name: str, group: str, resource: str) -> dict[str, Any]:
    return {
        "name": name,
        "clientConfig": {"service": {"name": "webhook-service", "namespace": "system", "path": f"/of-{name}"}},
        "rules": [{"apiGroups": [group], "resources": [resource]}],
    }


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    hooks = [
        webhook("mpod.kb.io", "", "pods"),
        webhook("mjob.kb.io", "batch", "jobs"),
        webhook("mjobset.kb.io", "jobset.x-k8s.io", "jobsets"),
        webhook("mclusterqueue.kb.io", "kueue.x-k8s.io", "clusterqueues"),
    ]
    kind = "MutatingWebhookConfiguration"
    document = {"kind": kind, "metadata": {"name": "mutating-webhook-configuration"}, "webhooks": hooks}
    (tmp_path / "webhooks.yaml").write_text("---\n" + yaml.safe_dump(document))
    (tmp_path / "ca.crt").write_text("trust me")
    return tmp_path


def written(manifests: Path, *frameworks: str) -> Any:
    [document] = kueue.webhooks(manifests, frameworks=frameworks, webhook_port=9, authority=manifests / "ca.crt")
    return document


def test_webhooks_of_frameworks_that_are_off_are_left_out(manifests: Path) -> None:
    names = [hook["name"] for hook in written(manifests, "pod")["webhooks"]]
    assert names == ["mpod.kb.io", "mclusterqueue.kb.io"]
    names = [hook["name"] for hook in written(manifests, "batch/job", "jobset.x-k8s.io/jobset")["webhooks"]]
    assert names == ["mjob.kb.io", "mjobset.kb.io", "mclusterqueue.kb.io"]


def test_webhooks_are_reached_by_url_and_sort_behind_ours(manifests: Path) -> None:
    document = written(manifests, "pod")
    assert document["metadata"]["name"] == "kueue-mutating-webhook-configuration"
    assert document["metadata"]["name"] > "gpustack-worker-mutation"
    client = document["webhooks"][0]["clientConfig"]
    assert client == {"url": "https://127.0.0.1:9/of-mpod.kb.io", "caBundle": "dHJ1c3QgbWU="}


def test_system_namespaces_are_spared_by_webhooks_of_jobs_and_pods_only(manifests: Path) -> None:
    pods, queues = written(manifests, "pod")["webhooks"]
    assert pods["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "kueue-system"]
    assert "namespaceSelector" not in queues


def test_only_the_stored_version_of_a_definition_is_served(tmp_path: Path) -> None:
    versions = [
        {"name": "v1beta1", "served": True, "storage": False},
        {"name": "v1beta2", "served": True, "storage": True},
    ]
    (tmp_path / "crd").mkdir()
    (tmp_path / "crd" / "queues.yaml").write_text(yaml.safe_dump({"spec": {"versions": versions}}))
    [definition] = kueue.definitions(tmp_path)
    assert [version["served"] for version in definition["spec"]["versions"]] == [False, True]
