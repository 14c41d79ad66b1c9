"""What the webhook server counts, in the default registry."""

from prometheus_client import Gauge, Histogram

# A review takes a fraction of a millisecond and should: half of the buckets lie below 1 ms, and 5 ms is one of them.
review_seconds = Histogram(
    "gpustack_ctl_webhook_review_seconds",
    "Server time of one admission review, from its head to its answer",
    ["webhook", "verdict"],
    buckets=(
        *(0.0001, 0.0002, 0.0003, 0.0004, 0.0005, 0.0006, 0.0008),
        *(0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 10),
    ),
)
certificate_expiry_seconds = Gauge(
    "gpustack_ctl_webhook_certificate_expiry_timestamp_seconds", "When the certificate being served ends, Unix time"
)
