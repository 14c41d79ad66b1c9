"""A resource knows its URLs."""

import pytest

from gpustack_ctl.kube.resources import DEVICES, NODES, PODS, WORKLOADS


def test_paths_of_the_core_group_and_of_others() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path(namespace="ns") == "/api/v1/namespaces/ns/pods"
    assert PODS.path("p", "ns", "status") == "/api/v1/namespaces/ns/pods/p/status"
    assert NODES.path("n") == "/api/v1/nodes/n"
    assert DEVICES.path("n", subresource="status") == "/apis/worker.gpustack.ai/v1alpha1/devices/n/status"
    assert WORKLOADS.path("w", "ns") == "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/w"


def test_a_cluster_scoped_object_has_no_namespace_to_get_wrong() -> None:
    assert NODES.path("n", "ignored") == "/api/v1/nodes/n"


def test_a_namespaced_object_needs_its_namespace() -> None:
    with pytest.raises(ValueError, match="namespace"):
        PODS.path("p")


def test_a_name_cannot_leave_its_place_in_the_path() -> None:
    assert NODES.path("../secrets") == "/api/v1/nodes/..%2Fsecrets"
