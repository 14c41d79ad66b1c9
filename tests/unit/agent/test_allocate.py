"""What the kubelet's two calls come to, family by family."""

import pytest

from gpustack_ctl.accel.families import KeyKind, Mode
from gpustack_ctl.accel.ledger import status_of
from gpustack_ctl.agent.reservations import PromiseKey
from gpustack_ctl.agent.turns import AllocationRefused
from tests.unit.agent.one_node import TWO_MIG_A100, asks, slice_of

SLICED = "nvidia.com/gpu.sliced"


async def test_two_half_slices_share_a_card(a_node):
    node = await a_node()
    first = node.admit("first", slice_of(50))
    await node.allocate(KeyKind.SLICED, heard="first")
    second = node.admit("second", slice_of(50))
    response = await node.allocate(KeyKind.SLICED, heard="second")

    assert node.held(first)["main"] == node.held(second)["main"]
    assert response.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "12288m"
    assert node.modes == [Mode.SLICED, Mode.NONE, Mode.NONE, Mode.NONE]


async def test_a_slice_folds_mib_by_the_memory_of_its_own_card(a_node):
    node = await a_node()
    node.admit("small", asks({SLICED: 1, f"{SLICED}.memory-mib": 6144}))

    response = await node.allocate(KeyKind.SLICED)

    assert response.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "6144m"
    assert node.ledger.current.states[0].remaining == 1_200_000


async def test_a_slice_does_not_believe_the_units_that_a_pod_carries(a_node):
    node = await a_node()
    node.admit("liar", asks({SLICED: 1, f"{SLICED}.memory-percentage": 50, f"{SLICED}.units": 1}))

    await node.allocate(KeyKind.SLICED)

    assert node.ledger.current.states[0].allocated == 800_000


async def test_a_shared_request_of_two_names_two_cards(a_node):
    node = await a_node()
    pod = node.admit("share", asks({"nvidia.com/gpu.shared": 2}))

    response = await node.allocate(KeyKind.SHARED, 2)

    assert len(set(node.held(pod)["main"])) == 2
    assert response.envs["NVIDIA_VISIBLE_DEVICES"].count(",") == 1


async def test_two_tokens_of_one_card_are_refused_for_a_shared_request(a_node):
    node = await a_node()
    node.admit("share", asks({"nvidia.com/gpu.shared": 2}))
    tokens = node.free_tokens(KeyKind.SHARED)[:2]

    with pytest.raises(AllocationRefused, match="was given twice"):
        await node.allocate(KeyKind.SHARED, tokens=tokens)
    assert list(node.reservations) == []


async def test_a_card_that_another_mode_holds_is_refused_and_the_holder_named(a_node):
    node = await a_node()
    node.admit("whole", asks({"nvidia.com/gpu": 1}))
    tokens = node.free_tokens(KeyKind.SLICED)
    await node.allocate(KeyKind.WHOLE, heard="whole")
    node.admit("late", slice_of(10))

    with pytest.raises(AllocationRefused, match=r"held whole \(by default/whole\)"):
        await node.allocate(KeyKind.SLICED, tokens=tokens[:1])
    assert {kind for kind, _ in node.told.messages} == {"Pod", "Node"}


async def test_a_slice_past_the_cards_memory_is_refused_unless_the_gate_is_off(a_node):
    node = await a_node()
    node.admit("most", slice_of(80))
    token, *rest = node.free_tokens(KeyKind.SLICED)
    await node.allocate(KeyKind.SLICED, tokens=[token], heard="most")
    node.admit("more", slice_of(30))

    with pytest.raises(AllocationRefused, match="has 20% of its memory left, the slice needs 30%"):
        await node.allocate(KeyKind.SLICED, tokens=rest[:1])


async def test_with_the_gate_off_the_kubelets_choice_stands(a_node):
    node = await a_node(GPUSTACK_DEVICE_PLUGIN_SLICED_ALLOCATE_GATE="false")
    node.admit("most", slice_of(80))
    token, *rest = node.free_tokens(KeyKind.SLICED)
    await node.allocate(KeyKind.SLICED, tokens=[token], heard="most")
    pod = node.admit("more", slice_of(30))

    await node.allocate(KeyKind.SLICED, tokens=rest[:1])

    assert node.held(pod)


async def test_a_retried_call_is_not_charged_twice(a_node):
    node = await a_node()
    node.admit("half", slice_of(60))
    tokens = node.free_tokens(KeyKind.SLICED)[:1]

    answers = [await node.allocate(KeyKind.SLICED, tokens=tokens) for _ in range(3)]

    assert answers[0] == answers[1] == answers[2]
    assert node.ledger.current.states[0].allocated == 960_000


async def test_a_retried_call_may_name_another_card(a_node):
    node = await a_node()
    pod = node.admit("whole", asks({"nvidia.com/gpu": 1}))
    first, second, *_ = node.free_tokens(KeyKind.WHOLE)

    await node.allocate(KeyKind.WHOLE, tokens=[first])
    await node.allocate(KeyKind.WHOLE, tokens=[second])

    assert node.held(pod)["main"] == [second.split("::")[1]]
    assert node.modes == [0, 1, 0, 0]


async def test_a_call_that_no_container_waits_for_is_refused(a_node):
    node = await a_node()

    with pytest.raises(AllocationRefused, match="no container on this node waits for 1"):
        await node.allocate(KeyKind.WHOLE)


async def test_a_partition_is_placed_where_it_spares_the_larger_profiles(a_node):
    node = await a_node(TWO_MIG_A100)
    key = "nvidia.com/gpu.partitioned"
    for number, profile in enumerate(("1g.10gb", "3g.40gb", "3g.40gb")):
        node.admit(f"pod-{number}", asks({key: 1, f"{key}.mig-{profile}": 1}))
        await node.allocate(KeyKind.PARTITIONED, heard=f"pod-{number}")

    first, second = node.ledger.current.states
    assert first.allocated_profiles() == {"1g.10gb": 1, "3g.40gb": 1}
    assert second.allocated_profiles() == {"3g.40gb": 1}


async def test_a_retried_partition_keeps_its_instance(a_node):
    node = await a_node(TWO_MIG_A100)
    key = "nvidia.com/gpu.partitioned"
    node.admit("pod", asks({key: 1, f"{key}.mig-2g.20gb": 1}))

    answers = [await node.allocate(KeyKind.PARTITIONED) for _ in range(2)]

    assert answers[0].envs == answers[1].envs
    assert sum(sum(state.allocated_profiles().values()) for state in node.ledger.current.states) == 1


async def test_a_driver_that_fails_gives_everything_back(a_node):
    node = await a_node(
        TWO_MIG_A100 + "\nfailures: [{call: create-gpu-instance, error: insufficient-resources, times: 1}]"
    )
    key = "nvidia.com/gpu.partitioned"
    node.admit("pod", asks({key: 1, f"{key}.mig-7g.80gb": 1}))

    with pytest.raises(AllocationRefused, match="create-gpu-instance: insufficient-resources"):
        await node.allocate(KeyKind.PARTITIONED)
    assert list(node.reservations) == []

    assert (await node.allocate(KeyKind.PARTITIONED)).envs["NVIDIA_VISIBLE_DEVICES"].startswith("MIG-")


async def test_a_slice_without_its_enforcement_library_is_refused_and_nothing_stays_promised(a_node):
    node = await a_node(GPUSTACK_NVIDIA_SLICE_ISOLATION="on")
    node.admit("half", slice_of(50))

    with pytest.raises(AllocationRefused, match="CUDA version"):
        await node.allocate(KeyKind.SLICED)
    assert list(node.reservations) == []


async def test_a_sidecar_sees_what_its_neighbour_holds_and_is_charged_nothing(a_node):
    node = await a_node()
    pod = node.admit(
        "watched", asks({"nvidia.com/gpu": 2}), asks({"device.gpustack.ai/nvidia.visibility": 2}, name="monitor")
    )
    main = await node.allocate(KeyKind.WHOLE, 2, heard="watched")

    monitor = await node.allocate(KeyKind.VISIBILITY, 2)

    assert monitor.envs == main.envs
    assert node.held(pod).keys() == {"main"}


async def test_a_sidecar_sees_the_partition_itself(a_node):
    node = await a_node(TWO_MIG_A100)
    key = "nvidia.com/gpu.partitioned"
    node.admit(
        "watched",
        asks({key: 1, f"{key}.mig-3g.40gb": 1}),
        asks({"device.gpustack.ai/nvidia.visibility": 1}, name="monitor"),
    )
    main = await node.allocate(KeyKind.PARTITIONED, heard="watched")

    assert (await node.allocate(KeyKind.VISIBILITY)).envs == main.envs


async def test_an_app_container_may_have_the_card_of_its_init_container(a_node):
    node = await a_node()
    pod = node.admit(
        "staged", asks({"nvidia.com/gpu": 1}), initContainers=[asks({"nvidia.com/gpu": 1}, name="prepare")]
    )
    tokens = node.free_tokens(KeyKind.WHOLE)[:1]

    await node.allocate(KeyKind.WHOLE, tokens=tokens)
    await node.allocate(KeyKind.WHOLE, tokens=tokens)

    assert node.held(pod).keys() == {"prepare", "main"}


async def test_a_new_process_on_the_same_disk_knows_every_promise(a_node):
    node = await a_node()
    node.admit("half", slice_of(50))
    await node.allocate(KeyKind.SLICED, heard="half")
    node.admit("whole", asks({"nvidia.com/gpu": 1}))
    await node.allocate(KeyKind.WHOLE, heard="whole")
    before = status_of(node.ledger.current)

    await node.boot()

    assert status_of(node.ledger.current) == before


async def test_a_promise_dropped_is_gone_for_a_new_process_too(a_node):
    node = await a_node()
    pod = node.admit("whole", asks({"nvidia.com/gpu": 1}))
    await node.allocate(KeyKind.WHOLE)
    await node.reservations.drop([PromiseKey(pod["metadata"]["uid"], "main", "nvidia.com/gpu")])

    await node.boot()

    assert node.modes == [0, 0, 0, 0]
