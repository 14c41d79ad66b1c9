"""Partitions on a card in MIG mode. Makes and destroys instances: the card must be idle."""

import subprocess
import time

import anyio
import pytest

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.geometry import largest_first
from gpustack_ctl.accel.records import Entry
from gpustack_ctl.agent.nvml.partitions import NvmlPartitions
from gpustack_ctl.agent.partition_markers import Markers
from gpustack_ctl.agent.partitions import InstanceInUseError
from tests.gpu.conftest import TABLE
from tests.gpu.cuda import holding

POD = PodKey("default", "pod", "uid-1")


@pytest.fixture
async def card(detector):
    """The first card in MIG mode."""
    found = await detector.detect()
    card = next((card for model in found.models for card in model.cards if card.profiles), None)
    if card is None:
        pytest.skip("no card is in MIG mode: nvidia-smi -i 0 -mig 1")
    return card


@pytest.fixture
async def partitions(nvml, tmp_path, card):
    made = NvmlPartitions(nvml, Markers(tmp_path), manufacturer=TABLE.by_key["nvidia"])
    yield made
    await made.destroy(POD.uid)


def _entries(card, *profiles):
    return [
        Entry("group", "nvidia", card.id, card.index, Mode.PARTITIONED, 1, profile.name, (profile.placements[0],))
        for profile in profiles
    ]


def _listed() -> str:
    return subprocess.run(["nvidia-smi", "-L"], check=True, capture_output=True, text=True).stdout


async def test_profiles_have_the_drivers_names(card) -> None:
    told = (await anyio.run_process(["nvidia-smi", "mig", "-lgip"])).stdout.decode()

    for profile in card.profiles:
        print(profile)
        assert f"MIG {profile.name} " in told


async def test_an_instance_of_every_profile_is_made_shown_and_taken_away(card, partitions) -> None:
    for profile in largest_first(card.profiles):
        started = time.monotonic()
        (uuid,) = await partitions.create(POD, "main", _entries(card, profile))
        made = time.monotonic()
        assert uuid in _listed()
        assert await partitions.create(POD, "main", _entries(card, profile)) == (uuid,)
        asked = time.monotonic()
        await partitions.destroy(POD.uid)
        print(f"{profile.name}: made in {made - started:.3f} s, taken away in {time.monotonic() - asked:.3f} s")
        assert uuid not in _listed()


async def test_an_instance_in_use_stays(card, partitions) -> None:
    smallest = largest_first(card.profiles)[-1]
    (uuid,) = await partitions.create(POD, "main", _entries(card, smallest))
    with holding(uuid):
        with pytest.raises(InstanceInUseError):
            await partitions.destroy(POD.uid)
        assert uuid in _listed()

    await partitions.destroy(POD.uid)

    assert uuid not in _listed()
