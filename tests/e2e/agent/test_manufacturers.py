"""Other manufacturers' cards on a real kubelet: what reaches the container, and what the Pod is told."""

from tests.e2e.agent.harness import container

TWO_VENDORS = """
cards:
- {model: MTT S4000, manufacturer: mthreads, count: 2, memoryMib: 49152}
- {model: K100, manufacturer: hygon, count: 1, memoryMib: 65536}
"""

HALF = {"mthreads.com/gpu.sliced": 1, "mthreads.com/gpu.sliced.memory-percentage": 50}


async def test_a_slice_that_this_host_cannot_enforce_is_refused_on_its_pod(agent, pods, eventually):
    await agent.start(TWO_VENDORS, serves="mthreads.com/gpu.sliced")

    await pods.create("slice", container("main", HALF))

    message = await eventually("the Pod is refused", lambda: _refusal(pods, "slice"))
    assert "sgpu_km is not loaded" in message
    assert "GPUSTACK_MTHREADS_SLICE_ISOLATION=off" in message

    async def free():
        return not any(card["allocated"] for card in await agent.cards())

    await eventually("the card is free again", free)


async def test_a_share_sees_its_cards_and_a_card_without_nodes_is_refused(agent, pods, eventually):
    await agent.start(TWO_VENDORS, serves="mthreads.com/gpu.shared")

    await pods.run("share", **{"mthreads.com/gpu.shared": 2})
    cards = (await pods.record("share"))["main"]
    assert (await pods.env("share"))["MTHREADS_VISIBLE_DEVICES"] == ",".join(card["id"] for card in cards)

    await pods.create("whole", container("main", {"hygon.com/dcu": 1}))
    assert "/dev/mkfd" in await eventually("the Pod is refused", lambda: _refusal(pods, "whole"))


async def _refusal(pods, name):
    status = (await pods.get(name))["status"]
    return status.get("message") if status["phase"] == "Failed" else None
