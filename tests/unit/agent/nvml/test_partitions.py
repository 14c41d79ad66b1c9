"""Partitions on the hardware: made where they were promised, found again after any kill, gone with their Pod."""

import os

import pynvml
import pytest

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.accel.families import Mode, manufacturers
from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.accel.records import Entry
from gpustack_ctl.agent.nvml.partitions import NvmlPartitions
from gpustack_ctl.agent.partition_markers import Markers
from gpustack_ctl.agent.partitions import InstanceInUseError, NoRoomError, PartitionError
from tests.nvml_stub.machine import a100

POD, OTHER = PodKey("default", "pod", "uid-1"), PodKey("default", "other", "uid-2")
NVIDIA = manufacturers().by_key["nvidia"]


@pytest.fixture
def stub(machine):
    return machine(a100("GPU-0"), a100("GPU-1"))


@pytest.fixture
def partitions(nvml, tmp_path, stub):
    """Every call is the next process: only the disk and the hardware are the same."""

    def make():
        return NvmlPartitions(
            nvml, Markers(tmp_path / "markers"), manufacturer=NVIDIA, until_room=(0.01, 0.01), until_unused=(0.01, 0.01)
        )

    return make


def _entry(start=0, *, card="GPU-0", profile="3g.40gb", length=4):
    return Entry("a100", "nvidia", card, 0, Mode.PARTITIONED, 800_000, profile, (Placement(start, length),))


async def test_an_instance_lies_where_it_was_promised_and_has_the_drivers_uuid(partitions, stub):
    ids = await partitions().create(POD, "main", [_entry(4), _entry(0, card="GPU-1", profile="1g.20gb", length=2)])

    assert stub.instances() == [("GPU-0", 4, 4, ids[0]), ("GPU-1", 0, 2, ids[1])]
    assert all(uuid.startswith("MIG-") for uuid in ids)
    assert await partitions().existing("uid-1", "main") == ids
    assert await partitions().owners() == {POD}


async def test_asking_again_makes_nothing_new(partitions, stub):
    ids = await partitions().create(POD, "main", [_entry()])

    assert await partitions().create(POD, "main", [_entry()]) == ids
    assert len(stub.instances()) == 1


async def test_a_driver_in_trouble_takes_nothing_from_a_container_that_asks_again(partitions, stub):
    ids = await partitions().create(POD, "main", [_entry()])
    for call in ("nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance"):
        stub.fault(call, pynvml.NVML_ERROR_UNKNOWN)
    assert await partitions().create(POD, "main", [_entry()]) == ids

    stub.fault("nvmlDeviceGetHandleByUUID", pynvml.NVML_ERROR_UNKNOWN)
    with pytest.raises(PartitionError):
        await partitions().create(POD, "main", [_entry()])

    assert [instance[3] for instance in stub.instances()] == list(ids)
    assert await partitions().existing("uid-1", "main") == ids


async def test_another_place_replaces_what_was_there(partitions, stub):
    await partitions().create(POD, "main", [_entry(0)])
    (uuid,) = await partitions().create(POD, "main", [_entry(4)])

    assert stub.instances() == [("GPU-0", 4, 4, uuid)]


@pytest.mark.parametrize(
    "call",
    ["nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance", "nvmlDeviceGetUUID"],
)
async def test_a_partition_that_cannot_be_made_leaves_nothing(partitions, stub, call):
    stub.fault(call, pynvml.NVML_ERROR_UNKNOWN, times=1)

    with pytest.raises(PartitionError, match=rf"3g\.40gb at slice 0 of GPU-0 cannot be made: {call}"):
        await partitions().create(POD, "main", [_entry()])

    assert stub.instances() == []
    assert await partitions().owners() == set()


async def test_the_second_that_fails_takes_the_first_along(partitions, stub):
    with pytest.raises(PartitionError, match=r"does not offer 9g\.90gb"):
        await partitions().create(POD, "main", [_entry(), _entry(4, profile="9g.90gb")])

    assert stub.instances() == []


async def test_room_that_comes_a_moment_later_is_waited_for(partitions, stub):
    stub.fault("nvmlDeviceCreateGpuInstanceWithPlacement", pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES, times=2)

    assert await partitions().create(POD, "main", [_entry()])


async def test_room_that_never_comes_is_a_typed_refusal(partitions, stub):
    stub.fault("nvmlDeviceCreateGpuInstanceWithPlacement", pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)

    with pytest.raises(NoRoomError):
        await partitions().create(POD, "main", [_entry()])
    assert await partitions().owners() == set()


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceCreateGpuInstanceWithPlacement",
        "nvmlGpuInstanceCreateComputeInstance",
        "nvmlDeviceGetMaxMigDeviceCount",
    ],
)
async def test_a_kill_in_the_middle_is_completed_by_the_next_process(partitions, stub, monkeypatch, call):
    """The process ends before the call, with everything until then done: marker, GPU instance, compute instance."""

    class Killed(BaseException):
        pass

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(pynvml, call.removesuffix("_v2"), kill)
        with pytest.raises(Killed):
            await partitions().create(POD, "main", [_entry()])
    before = stub.instances()

    ids = await partitions().create(POD, "main", [_entry()])

    assert [instance[3] for instance in stub.instances()] == list(ids)
    assert len(before) <= 1
    await partitions().destroy("uid-1")
    assert stub.instances() == []


async def test_what_a_killed_process_half_made_goes_with_its_pod(partitions, stub, monkeypatch):
    def kill(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pynvml, "nvmlGpuInstanceCreateComputeInstance", kill)
        with pytest.raises(KeyboardInterrupt):
            await partitions().create(POD, "main", [_entry()])
    assert stub.instances() == [("GPU-0", 0, 4, "-")]
    assert await partitions().owners() == {POD}

    await partitions().destroy("uid-1")

    assert stub.instances() == []
    assert await partitions().owners() == set()


async def test_a_pods_end_takes_its_instances_and_no_others(partitions, stub):
    await partitions().create(POD, "a", [_entry(0)])
    (kept,) = await partitions().create(OTHER, "a", [_entry(4)])

    await partitions().destroy("uid-1")

    assert stub.instances() == [("GPU-0", 4, 4, kept)]
    assert await partitions().owners() == {OTHER}
    await partitions().destroy("uid-1")


async def test_an_instance_in_use_for_a_moment_is_waited_for(partitions, stub):
    (uuid,) = await partitions().create(POD, "main", [_entry()])
    stub.use(uuid, tries=2)

    await partitions().destroy("uid-1")

    assert stub.instances() == []


async def test_an_instance_in_use_is_never_destroyed_and_stays_its_pods(partitions, stub):
    (uuid,) = await partitions().create(POD, "main", [_entry()])
    stub.use(uuid)

    with pytest.raises(InstanceInUseError, match=r"3g\.40gb at slice 0 of GPU-0 cannot be taken away"):
        await partitions().destroy("uid-1")

    assert stub.instances() == [("GPU-0", 0, 4, uuid)]
    assert await partitions().owners() == {POD}


async def test_an_instance_that_somebody_else_made_is_neither_used_nor_touched(partitions, stub):
    stub.put("GPU-0", 9, 0, 4, "MIG-theirs")

    with pytest.raises(NoRoomError, match="MIG-theirs, which somebody else made; destroy it with nvidia-smi mig"):
        await partitions().create(POD, "main", [_entry()])

    assert stub.instances() == [("GPU-0", 0, 4, "MIG-theirs")]
    assert await partitions().owners() == set()


async def test_an_instance_put_in_the_place_of_ours_is_not_destroyed(partitions, stub):
    await partitions().create(POD, "main", [_entry()])
    stub.reboot()
    stub.put("GPU-0", 9, 0, 4, "MIG-theirs")

    with pytest.raises(NoRoomError):
        await partitions().create(POD, "main", [_entry()])
    await partitions().destroy("uid-1")

    assert stub.instances() == [("GPU-0", 0, 4, "MIG-theirs")]


async def test_another_pods_instance_is_named_with_its_pod(partitions, stub):
    await partitions().create(POD, "main", [_entry()])

    with pytest.raises(NoRoomError, match="which Pod default/pod has"):
        await partitions().create(OTHER, "main", [_entry()])


async def test_after_a_reboot_the_instance_is_made_anew(partitions, stub):
    (before,) = await partitions().create(POD, "main", [_entry()])
    stub.reboot()

    (after,) = await partitions().create(POD, "main", [_entry()])

    assert after != before
    assert await partitions().existing("uid-1", "main") == (after,)


async def test_a_card_that_is_gone_keeps_nobody_from_being_freed(partitions, stub):
    await partitions().create(POD, "main", [_entry()])
    stub.cards.pop(0)
    stub.save()

    await partitions().destroy("uid-1")

    assert await partitions().owners() == set()


async def test_turning_mig_off_frees_everybody_and_makes_nobody_anything(partitions, stub):
    await partitions().create(POD, "main", [_entry()])
    stub.reboot()
    stub.change(0, mig=False)

    await partitions().destroy("uid-1")
    with pytest.raises(PartitionError, match="Not Supported"):
        await partitions().create(POD, "main", [_entry()])

    assert await partitions().owners() == set()


async def test_every_error_of_a_destruction_leaves_the_marker(partitions, stub):
    await partitions().create(POD, "main", [_entry()])
    codes = [value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_") and isinstance(value, int)]
    for call in ("nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy"):
        for code in codes:
            stub.fault(call, code)
            with pytest.raises(PartitionError):
                await partitions().destroy("uid-1")
            assert await partitions().owners() == {POD}
            stub.heal()

    await partitions().destroy("uid-1")
    assert stub.instances() == []


async def test_a_full_disk_makes_no_instance(partitions, stub, tmp_path):
    (tmp_path / "markers").write_text("a file where the directory should be")

    with pytest.raises(PartitionError, match=r"cannot be (read|written)"):
        await partitions().create(POD, "main", [_entry()])

    assert stub.instances() == []


async def test_a_disk_that_fills_up_in_between_leaves_no_instance(partitions, stub, monkeypatch):
    synced = []

    def full_after_the_first(_):
        if synced:
            raise OSError(28, "No space left on device")
        synced.append(True)

    monkeypatch.setattr(os, "fsync", full_after_the_first)
    with pytest.raises(PartitionError, match="cannot be written: No space left"):
        await partitions().create(POD, "main", [_entry()])

    assert stub.instances() == []
    assert await partitions().owners() == set()


async def test_a_damaged_marker_is_named_and_harms_no_other(partitions, stub, tmp_path):
    await partitions().create(OTHER, "main", [_entry(4)])
    (tmp_path / "markers/uid-1_main.json").write_text('{"pod": ')

    with pytest.raises(PartitionError, match=r"uid-1_main\.json cannot be read"):
        await partitions().create(POD, "main", [_entry()])
    assert await partitions().owners() == {OTHER}
