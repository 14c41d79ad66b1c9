"""What the controllers count, in the default registry."""

from prometheus_client import Counter, Histogram

verdict_seconds = Histogram(
    "gpustack_ctl_verdict_seconds",
    "Time of one verdict of gate 3, the reading of its nodes' Pods included",
    ["state"],
    buckets=(0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
searches_bounded = Counter(
    "gpustack_ctl_verdict_searches_bounded", "Verdicts held because the search stopped at its bound"
)
pins_lost = Counter("gpustack_ctl_pins_lost", "Times that Kueue placed a held Workload before its pin was in")
