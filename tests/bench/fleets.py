"""A fleet as the manager holds it: nodes, ledgers, admitted Workloads and the Pods of half of them."""

from typing import Any

from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.features import feature_labels
from gpustack_ctl.accel.labels import ADMISSION_CHECK, ALLOCATED, HOSTNAME, KUEUE_PODSET, KUEUE_WORKLOAD
from gpustack_ctl.accel.records import Entry, format_record
from gpustack_ctl.accel.units import percentage_units
from gpustack_ctl.controllers.sources import Sources
from tests.integration.controllers.stage import Pool, devices, devices_spec

POOL = Pool("bench")
CARDS = 8
ASKED = {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-percentage": "30"}


def fill(sources: Sources, *, nodes: int, per_node: int = 2) -> list[str]:
    """So many nodes of eight cards, on each so many admitted Workloads of two Pods; the first's Pods are recorded."""
    names = [f"node-{number}" for number in range(nodes)]
    spec = devices_spec(POOL, "any", CARDS)
    features = feature_labels(spec, gkey="generic", cores=32)
    pins = {key: value for key, value in features.items() if POOL.akey in key and not key.endswith(".capacity")}
    sources.flavors.put(_object(POOL.flavor(CARDS), spec={"nodeLabels": pins}))
    instance_type = {"acceleratable": True, "acceleratorGroup": POOL.akey, "memory": "24576Mi"}
    sources.instance_types.put(_object(POOL.queue, spec=instance_type))
    for name in names:
        node = _object(name, labels={**features, HOSTNAME: name}, status={"allocatable": {"cpu": "32"}})
        sources.nodes.put(node)
        published = devices(node, devices_spec(POOL, name, CARDS), features)
        published["metadata"]["resourceVersion"] = "1"
        sources.devices.put(published)
        for number in range(per_node):
            workload = a_workload(f"{name}-w{number}", name)
            sources.workloads.put(workload)
            if number == 0:
                for index in range(2):
                    sources.pods.put(_pod(workload, name, index))
    return names


def a_workload(name: str, node: str, *, admitted: bool = True) -> dict[str, Any]:
    """Two Pods of a 30 % slice on the node."""
    where = {"domainCount": 1, "valuesPerLevel": [{"universal": node}], "podCounts": {"universal": 2}}
    assignment = {
        "name": "main",
        "count": 2,
        "flavors": {"credits.gpustack.ai/nvidia": POOL.flavor(CARDS)},
        "topologyAssignment": {"levels": [HOSTNAME], "slices": [where]},
    }
    container = {"name": "main", "resources": {"limits": ASKED}}
    true = [{"type": kind, "status": "True"} for kind in ("QuotaReserved", "Admitted")]
    return _object(
        name,
        namespace="team",
        spec={"podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [container]}}}]},
        status={
            "conditions": true if admitted else true[:1],
            "admission": {"clusterQueue": POOL.queue, "podSetAssignments": [assignment]},
            "admissionChecks": [{"name": ADMISSION_CHECK, "state": "Ready" if admitted else "Pending"}],
        },
    )


def _pod(workload: dict[str, Any], node: str, index: int) -> dict[str, Any]:
    entry = Entry(POOL.model, "nvidia", f"GPU-{node}-{index}", index, Mode.SLICED, percentage_units(30))
    name = workload["metadata"]["name"]
    pod = _object(
        f"{name}-{index}",
        namespace="team",
        labels={KUEUE_PODSET: "main"},
        annotations={KUEUE_WORKLOAD: name, ALLOCATED: format_record({"main": (entry,)})},
        spec={"nodeName": node, "containers": [{"name": "main", "resources": {"limits": ASKED}}]},
        status={"phase": "Running"},
    )
    pod["metadata"]["uid"] = f"uid-{name}-{index}"
    return pod


def _object(name: str, *, spec: Any = None, status: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "resourceVersion": "1", "uid": f"uid-{name}", **metadata},
        "spec": spec or {},
        "status": status or {},
    }
