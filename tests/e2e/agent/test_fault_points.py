"""Killed between any two steps of an allocation, the agent loses nothing and gives nothing twice."""

from collections import Counter
from itertools import pairwise

import orjson

from gpustack_ctl.agent.fault_points import POINTS
from gpustack_ctl.kube.resources import PODS
from tests.e2e.agent.harness import container

M = 1_600_000
HALF = {"nvidia.com/gpu.sliced": 1, "nvidia.com/gpu.sliced.memory-percentage": 50}
SMALL = {"nvidia.com/gpu.partitioned": 1, "nvidia.com/gpu.partitioned.mig-1g.10gb": 1}

PARTITIONS = "nvidia.com/gpu.partitioned"

MIXED = """
cards:
- {model: NVIDIA A10G, manufacturer: nvidia, count: 1, memoryMib: 24576}
- {model: NVIDIA A100-SXM4-80GB, manufacturer: nvidia, count: 2, memoryMib: 81920, mig: true}
"""


async def test_killed_between_any_two_steps_of_an_allocation_it_loses_nothing(agent, pods, kube, eventually):
    await agent.start(MIXED)
    await pods.run("bystander", **HALF)
    bystander = await pods.record("bystander")

    *steps, record = POINTS
    await agent.stop()
    await agent.start(MIXED, serves=PARTITIONS, GPUSTACK_FAULT_POINT=steps[0])
    for point, following in pairwise([*steps, ""]):
        await pods.create(point, container("main", SMALL))
        await eventually(f"the agent dies {point}", lambda: _dead(agent))
        await agent.start(MIXED, serves=PARTITIONS, GPUSTACK_FAULT_POINT=following)
        await eventually(f"ledger and records agree {point}", lambda: _agree(agent, kube, pods))
        assert await pods.record("bystander") == bystander, point

    # Records that a killed agent owed are written by the next one, which would die of it: so this point comes last.
    await agent.stop()
    await agent.start(MIXED, serves=PARTITIONS, GPUSTACK_FAULT_POINT=record)
    await pods.create(record, container("main", SMALL))
    await eventually(f"the agent dies {record}", lambda: _dead(agent))
    await agent.start(MIXED, serves=PARTITIONS)
    await eventually(f"ledger and records agree {record}", lambda: _agree(agent, kube, pods))

    # What they were promised is given back with them, and with nobody else.
    for point in POINTS:
        await pods.delete(point)
    await eventually("nothing but the bystander holds anything", lambda: _only(agent, bystander))
    await eventually("no marker is left", lambda: _no_markers(agent))
    await pods.run("after", **SMALL)


async def _dead(agent):
    return not agent.alive


async def _agree(agent, kube, pods):
    """Each card is charged what the records of the Pods say, and no more than there is."""
    charged = Counter()
    for pod in await kube.list(PODS, pods.namespace):
        written = pod["metadata"].get("annotations", {}).get("device.gpustack.ai/accelerator.allocated", "{}")
        ended = pod["status"]["phase"] in ("Succeeded", "Failed")
        for held in orjson.loads(written).values():
            for group in held["devices"]["groups"]:
                for card in group["accelerators"]:
                    if card["mode"] == 4 or not ended:
                        charged[card["id"]] += card["allocated"]
    rows = {card["id"]: card["allocated"] for card in await agent.cards()}
    assert all(units <= M for units in rows.values())
    return rows == {card: charged[card] for card in rows}


async def _only(agent, record):
    (held,) = record["main"]
    return {card["id"]: card["allocated"] for card in await agent.cards() if card["allocated"]} == {
        held["id"]: held["allocated"]
    }


async def _no_markers(agent):
    return not list((agent.state_dir / "partitions").glob("*"))
