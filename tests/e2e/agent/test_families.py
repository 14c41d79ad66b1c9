"""What each family of request gets from a real kubelet, and what it does not."""

HALF = {"nvidia.com/gpu.sliced": 1, "nvidia.com/gpu.sliced.memory-percentage": 50}

TWO_MIG_A100 = """
cards:
- {model: NVIDIA A100-SXM4-80GB, manufacturer: nvidia, count: 2, memoryMib: 81920, cores: 6912, mig: true}
"""


async def test_two_half_slices_share_one_card_and_see_their_limits(agent, pods):
    await agent.start()

    for name in ("half-a", "half-b"):
        await pods.run(name, **HALF)

    (first,), (second,) = [(await pods.record(name))["main"] for name in ("half-a", "half-b")]
    assert first == second == {"id": first["id"], "index": first["index"], "mode": 3, "allocated": 800000}
    env = await pods.env("half-a")
    assert env["NVIDIA_VISIBLE_DEVICES"] == first["id"]
    assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "12288m"
    assert env["CUDA_DEVICE_SM_LIMIT"] == "100"
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert env["LIBCUDA_LOG_LEVEL"] == "0"
    card = (await agent.cards())[first["index"]]
    assert card == card | {"mode": 3, "allocated": 1600000, "remaining": 0, "allocatedSlices": 2}


async def test_a_share_of_two_is_two_distinct_cards(agent, pods):
    await agent.start()

    await pods.run("share", **{"nvidia.com/gpu.shared": 2})

    cards = (await pods.record("share"))["main"]
    assert len({card["id"] for card in cards}) == 2
    assert [(card["mode"], card["allocated"]) for card in cards] == [(2, 160000), (2, 160000)]
    assert (await pods.env("share"))["NVIDIA_VISIBLE_DEVICES"] == ",".join(card["id"] for card in cards)


async def test_two_whole_cards_come_from_one_numa_node(agent, pods):
    await agent.start()

    await pods.run("first", **{"nvidia.com/gpu": 1})
    await pods.run("pair", **{"nvidia.com/gpu": 2})

    assert [card["index"] for card in (await pods.record("pair"))["main"]] == [2, 3]


async def test_a_card_held_whole_is_offered_to_nobody_else(agent, pods, eventually):
    await agent.start()

    await pods.run("whole", **{"nvidia.com/gpu": 1})

    async def shrunk():
        offered = [await agent.allocatable(f"nvidia.com/gpu{suffix}") for suffix in (".sliced", ".shared", "")]
        return offered == [3 * 128, 30, 4]

    await eventually("the card's other tokens are unhealthy", shrunk)


async def test_a_slice_without_room_fails_its_pod_and_says_why(agent, pods):
    await agent.start("cards:\n- {model: NVIDIA A10G, manufacturer: nvidia, count: 1, memoryMib: 24576}\n")
    await pods.run("half", **HALF)

    await pods.create("late", _container({**HALF, "nvidia.com/gpu.sliced.memory-percentage": 60}))

    late = await pods.in_phase("late", "Failed")
    assert late["status"]["reason"] == "UnexpectedAdmissionError"
    assert "has 50% of its memory left, the slice needs 60%" in late["status"]["message"]
    assert [card["allocatedSlices"] for card in await agent.cards()] == [1]


async def test_a_partition_is_an_instance_of_its_own(agent, pods):
    await agent.start(TWO_MIG_A100, serves="nvidia.com/gpu.partitioned")

    for name in ("first", "second"):
        await pods.run(name, **{"nvidia.com/gpu.partitioned": 1, "nvidia.com/gpu.partitioned.mig-3g.40gb": 1})

    (first,), (second,) = [(await pods.record(name))["main"] for name in ("first", "second")]
    assert first["id"] == second["id"], "the second fills the card that the first has opened"
    assert first["allocatedPhysicalProfile"] == "3g.40gb"
    assert first["allocatedPhysicalPlacements"] != second["allocatedPhysicalPlacements"]
    seen = [(await pods.env(name))["NVIDIA_VISIBLE_DEVICES"] for name in ("first", "second")]
    assert all(instance.startswith("MIG-") for instance in seen)
    assert seen[0] != seen[1]
    row = (await agent.cards())[first["index"]]
    assert row["allocatedProfiles"] == [{"name": "3g.40gb", "count": 2}]
    assert {"name": "7g.80gb", "count": 0} in row["remainingProfiles"]


async def test_a_partition_ends_with_its_pod(agent, pods, eventually):
    await agent.start(TWO_MIG_A100, serves="nvidia.com/gpu.partitioned")
    await pods.run("only", **{"nvidia.com/gpu.partitioned": 1, "nvidia.com/gpu.partitioned.mig-7g.80gb": 1})
    markers = agent.state_dir / "partitions"
    assert len(list(markers.glob("*.json"))) == 1

    await pods.delete("only")

    async def freed():
        return not any(card["allocated"] for card in await agent.cards()) and not list(markers.glob("*.json"))

    await eventually("instance and place are free", freed)


async def test_a_visibility_sidecar_sees_its_neighbours_card(agent, pods):
    await agent.start()

    await pods.create(
        "watched",
        _container({"nvidia.com/gpu": 1}),
        _container({"device.gpustack.ai/nvidia.visibility": 1}, name="monitor"),
    )

    await pods.running("watched")
    record = await pods.record("watched")
    assert record.keys() == {"main"}
    assert (await pods.env("watched", "monitor"))["NVIDIA_VISIBLE_DEVICES"] == record["main"][0]["id"]


async def test_visibility_without_an_owner_shows_nothing(agent, pods):
    await agent.start()

    await pods.create("alone", _container({"device.gpustack.ai/nvidia.visibility": 1}))

    alone = await pods.in_phase("alone", "Failed")
    assert "nobody holds any" in alone["status"]["message"]


async def test_a_container_takes_over_the_card_of_its_init_container(agent, pods):
    await agent.start()

    await pods.create(
        "staged",
        _container({"nvidia.com/gpu": 1}),
        initContainers=[
            {
                **_container({"nvidia.com/gpu": 1}, name="prepare"),
                "image": "gpustack.local/busybox:1",
                "imagePullPolicy": "Never",
                "command": ["true"],
            }
        ],
    )

    await pods.running("staged")
    record = await pods.record("staged")
    assert record["prepare"][0]["id"] == record["main"][0]["id"]
    assert sum(card["mode"] == 1 for card in await agent.cards()) == 1


def _container(limits, *, name="main"):
    return {"name": name, "resources": {"limits": {key: str(value) for key, value in limits.items()}}}
