"""A hundred Pods at once: the kubelet admits one after another, and every record must name the right one."""

import re
from collections import Counter

import anyio

M = 1_600_000
PODS = 100


async def test_a_burst_of_a_hundred_pods_is_recorded_pod_by_pod(agent, pods, capsys):
    await agent.start()

    async with anyio.create_task_group() as tasks:
        for number in range(PODS):
            # Four sizes in turn, so that a record on the wrong Pod shows: 100 Pods of 1 to 4 % on four cards.
            limits = {"nvidia.com/gpu.sliced": 1, "nvidia.com/gpu.sliced.memory-percentage": number % 4 + 1}
            tasks.start_soon(pods.create, f"pod-{number}", _idle(limits))
    records = [(await pods.record(f"pod-{number}"))["main"] for number in range(PODS)]

    assert [record[0]["allocated"] for record in records] == [(number % 4 + 1) * M // 100 for number in range(PODS)]
    held = Counter()
    for (card,) in records:
        held[card["id"]] += card["allocated"]
    assert all(units <= M for units in held.values())
    metrics = await agent.metrics()
    with capsys.disabled():
        for name, labels in _MEASURED:
            p50, p99 = (_quantile(metrics, name, labels, q) for q in (0.5, 0.99))
            print(f"\n{name} {labels}: p50 ≤ {p50} s, p99 ≤ {p99} s", end="")
        print(f"\nresident {agent.resident_mib:.0f} MiB", end=" ")
    assert _quantile(metrics, "device_plugin_call", 'call="allocate"', 0.99) <= 0.1


_MEASURED = (("device_plugin_call", 'call="allocate"'), ("device_plugin_call", 'call="hint"'), ("node_lock", ""))


def _quantile(metrics, name, labels, q):
    """The smallest bucket bound that holds the quantile."""
    buckets = Counter()
    for line in metrics.splitlines():
        found = re.match(rf'gpustack_ctl_{name}_seconds_bucket\{{(.*)le="([^"]+)".*\}} (\S+)', line)
        if found and labels in line:
            buckets[float(found[2])] += float(found[3])
    total = max(buckets.values())
    return min(bound for bound, count in buckets.items() if count >= q * total)


def _idle(limits):
    return {
        "name": "main",
        "command": ["sleep", "3600"],
        "resources": {"limits": {key: str(value) for key, value in limits.items()}},
    }
