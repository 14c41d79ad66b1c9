"""What the agent counts. Buckets are fine where a budget is: 25 ms for a call of the kubelet, 10 ms under the lock."""

from prometheus_client import Counter, Gauge, Histogram

_FINE = (0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 1, 2.5)

call_seconds = Histogram(
    "gpustack_ctl_device_plugin_call_seconds", "Time of one call of the kubelet", ["resource", "call"], buckets=_FINE
)
lock_seconds = Histogram("gpustack_ctl_node_lock_seconds", "Time the node's lock was held", buckets=_FINE)
journal_seconds = Histogram("gpustack_ctl_journal_seconds", "Time to put one promise on the disk", buckets=_FINE)
pod_resources_seconds = Histogram(
    "gpustack_ctl_pod_resources_seconds", "Time of the kubelet's answer to who holds what", buckets=_FINE
)
refusals = Counter("gpustack_ctl_allocations_refused", "Allocations refused", ["resource"])
guesses = Counter("gpustack_ctl_identified_by_guess", "Containers found without the kubelet's word", ["resource"])
promises = Gauge("gpustack_ctl_promises", "Devices promised to containers of this node")
unreadable = Gauge("gpustack_ctl_records_unreadable", "Pods whose allocation record cannot be read")
