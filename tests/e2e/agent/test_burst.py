"""A hundred Pods at once: the kubelet admits one after another, and every record must name the right one."""

from collections import Counter

import anyio

M = 1_600_000
PODS = 100


async def test_a_burst_of_a_hundred_pods_is_recorded_pod_by_pod(agent, pods):
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


def _idle(limits):
    return {
        "name": "main",
        "command": ["sleep", "3600"],
        "resources": {"limits": {key: str(value) for key, value in limits.items()}},
    }
