"""The agent on NVIDIA's driver, as far as NVML can tell: a real kubelet, the real bindings, a stub of the library."""

import os
import shutil
import tempfile
from pathlib import Path

import anyio
import pynvml
import pytest

from gpustack_ctl.kube.resources import DEVICES
from tests.e2e.agent.harness import Agent
from tests.nvml_stub.machine import Machine, StubCard, a100, build


class DriverAgent(Agent):
    """An agent that asks the driver."""

    def _detector(self, inventory: str) -> tuple[str, ...]:
        return ("--detector", "nvml")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
async def agent(control_plane, kube, node, pods, library, tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{library.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":"))
    monkeypatch.setenv("NVML_STUB_DIR", str(tmp_path))
    directory = Path(tempfile.mkdtemp(prefix="gsn-", dir="/tmp"))
    agent = DriverAgent(node=node, kubeconfig=control_plane.kubeconfig, kube=kube, directory=directory)
    try:
        yield agent
    finally:
        with anyio.CancelScope(shield=True):
            await pods.clear()
            await agent.stop()
            await kube.delete(DEVICES, node.name)
    shutil.rmtree(directory)


PARTITION = {"nvidia.com/gpu.partitioned": 1, "nvidia.com/gpu.partitioned.mig-3g.40gb": 1}


async def test_a_partition_is_made_on_the_hardware_and_goes_with_its_pod(agent, pods, tmp_path, eventually):
    machine = Machine(tmp_path, a100("GPU-0"), a100("GPU-1"))
    await agent.start(serves="nvidia.com/gpu.partitioned")

    await pods.run("cut", **PARTITION)

    (entry,) = (await pods.record("cut"))["main"]
    ((card, start, length, uuid),) = machine.instances()
    assert (entry["id"], entry["allocatedPhysicalPlacements"]) == (card, [{"start": start, "length": length}])
    assert (await pods.env("cut"))["NVIDIA_VISIBLE_DEVICES"] == uuid

    await pods.delete("cut")

    async def taken_away():
        return not machine.instances()

    await eventually("the instance is taken away", taken_away)


async def test_an_instance_in_use_outlives_its_pod_until_it_is_free_whatever_happens_to_the_agent(
    agent, pods, tmp_path, eventually
):
    machine = Machine(tmp_path, a100("GPU-0"))
    await agent.start(serves="nvidia.com/gpu.partitioned")
    await pods.run("cut", **PARTITION)
    ((*_, uuid),) = machine.instances()
    machine.use(uuid)

    await agent.kill()
    await pods.delete("cut")
    await pods.clear()
    await agent.start(serves="nvidia.com/gpu.partitioned")

    assert [instance[3] for instance in machine.instances()] == [uuid]
    assert [card["allocated"] > 0 for card in await agent.cards()] == [True]

    machine.use(uuid, tries=0)
    await agent.kill()
    await agent.start(serves="nvidia.com/gpu.partitioned")

    async def free():
        return not machine.instances() and not any(card["allocated"] for card in await agent.cards())

    await eventually("instance and place are free", free)


async def test_cards_change_under_a_running_agent(agent, tmp_path, eventually):
    machine = Machine(tmp_path, a100("GPU-0", mig=False), StubCard("GPU-1"))
    await agent.start()
    assert await agent.allocatable("nvidia.com/gpu") == 2

    machine.tell("GPU-1", pynvml.nvmlEventTypeXidCriticalError, 79)

    async def one_is_ill():
        return await agent.allocatable("nvidia.com/gpu") == 1

    await eventually("the ill card's token is not offered", one_is_ill)

    machine.change(0, mig=True)
    machine.tell("GPU-0", pynvml.nvmlEventMigConfigChange)

    async def cut():
        return await agent.allocatable("nvidia.com/gpu.partitioned") > 0

    await eventually("the card is offered in partitions", cut)
    machine.fault("nvmlDeviceGetCount_v2", pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    await anyio.sleep(6)
    assert await agent.allocatable("nvidia.com/gpu.partitioned") > 0
