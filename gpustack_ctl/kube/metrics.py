"""What this layer counts. Whoever serves /metrics serves the default registry; nothing here knows of it."""

from prometheus_client import Counter, Gauge, Histogram

requests = Counter("gpustack_ctl_api_requests", "Requests to the API server", ["verb", "code"])

informer_objects = Gauge("gpustack_ctl_informer_objects", "Objects held", ["resource"])
informer_lists = Counter("gpustack_ctl_informer_lists", "Full lists read, the first included", ["resource"])
informer_watches = Counter("gpustack_ctl_informer_watches", "Watches opened", ["resource"])

queue_depth = Gauge("gpustack_ctl_queue_depth", "Keys waiting for a worker", ["controller"])
queue_retries = Counter("gpustack_ctl_queue_retries", "Keys put back after a failure", ["controller"])
reconcile_seconds = Histogram(
    "gpustack_ctl_reconcile_seconds",
    "Time of one reconcile",
    ["controller"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
reconcile_errors = Counter("gpustack_ctl_reconcile_errors", "Reconciles that failed", ["controller", "error"])

events_dropped = Counter("gpustack_ctl_events_dropped", "Events not written", ["why"])
leading = Gauge("gpustack_ctl_leading", "1 while this process holds the lease", ["lease"])
