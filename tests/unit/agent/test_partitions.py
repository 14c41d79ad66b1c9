"""Instances and their markers."""

import os

import pytest

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.accel.records import Entry
from gpustack_ctl.agent.detectors.inventory_file import CallFailure
from gpustack_ctl.agent.partitions import PartitionError
from gpustack_ctl.agent.simulated_partitions import SimulatedPartitions

POD = PodKey("default", "pod", "uid-1")


def _entry(start=0):
    return Entry("a100", "nvidia", "GPU-0", 0, Mode.PARTITIONED, 800_000, "3g.40gb", (Placement(start, 4),))


async def test_an_instance_is_found_by_the_next_process(tmp_path):
    made = await SimulatedPartitions(tmp_path).create(POD, "main", [_entry()])

    later = SimulatedPartitions(tmp_path)

    assert await later.existing("uid-1", "main") == made
    assert await later.create(POD, "main", [_entry()]) == made
    assert await later.owners() == {POD}


async def test_another_place_is_another_instance(tmp_path):
    partitions = SimulatedPartitions(tmp_path)
    first = await partitions.create(POD, "main", [_entry(0)])

    assert await partitions.create(POD, "main", [_entry(4)]) != first


async def test_destroying_takes_every_instance_of_the_pod_and_no_others(tmp_path):
    partitions = SimulatedPartitions(tmp_path)
    other = PodKey("default", "other", "uid-2")
    for pod, container in ((POD, "a"), (POD, "b"), (other, "a")):
        await partitions.create(pod, container, [_entry()])

    await partitions.destroy("uid-1")

    assert await partitions.owners() == {other}
    await partitions.destroy("uid-1")


async def test_a_call_fails_as_often_as_it_was_told_to(tmp_path):
    partitions = SimulatedPartitions(tmp_path, [CallFailure("create-gpu-instance", "insufficient-resources", 2)])
    for _ in range(2):
        with pytest.raises(PartitionError, match="insufficient-resources"):
            await partitions.create(POD, "main", [_entry()])
        assert await partitions.owners() == set()

    assert await partitions.create(POD, "main", [_entry()])


async def test_a_full_disk_makes_no_instance(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PartitionError, match="cannot be written: No space left"):
        await SimulatedPartitions(tmp_path).create(POD, "main", [_entry()])
    assert await SimulatedPartitions(tmp_path).owners() == set()
