from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.requests import read_pod
from gpustack_ctl.controllers.slim import slim_node, slim_pod

CONTAINER = {
    "name": "main",
    "image": "app",
    "resources": {"limits": {"nvidia.com/gpu": "2"}},
    "env": [{"name": "A", "value": "B"}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}
POD = {
    "metadata": {"name": "p", "namespace": "n", "annotations": {"device.gpustack.ai/accelerator.allocated": "{}"}},
    "spec": {
        "nodeName": "node",
        "containers": [CONTAINER],
        "initContainers": [{**CONTAINER, "name": "side", "restartPolicy": "Always"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
    "status": {"phase": "Running", "message": "why", "containerStatuses": [{"name": "main"}]},
}


def test_what_a_pod_asks_for_and_holds_stays_and_how_it_runs_goes():
    slim = slim_pod(POD)
    assert slim["metadata"] == POD["metadata"]
    assert slim["status"] == {"phase": "Running", "message": "why"}
    assert slim["spec"] == {
        "nodeName": "node",
        "containers": [{"name": "main", "image": "app", "resources": CONTAINER["resources"]}],
        "initContainers": [
            {"name": "side", "image": "app", "resources": CONTAINER["resources"], "restartPolicy": "Always"}
        ],
    }


def test_a_slim_pod_asks_for_the_same_accelerators():
    slim, whole = (read_pod(each["spec"], table=manufacturers(), pool=None) for each in (slim_pod(POD), POD))
    assert slim == whole


def test_a_node_keeps_all_but_what_lies_on_its_disk():
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "8"}, "images": [{"names": ["a"]}]}}
    assert slim_node(node) == {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "8"}}}


def test_the_object_that_came_in_is_not_touched():
    before = {**POD["spec"]}
    slim_pod(POD)
    assert POD["spec"] == before
    assert "env" in POD["spec"]["containers"][0]
