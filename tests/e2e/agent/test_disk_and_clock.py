"""The agent on a host that misbehaves: a disk that is full, read-only or damaged, a dead socket, a clock set back."""

import socket
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

from anyio import to_thread

from tests.e2e.agent.harness import container

HALF = {"nvidia.com/gpu.sliced": 1, "nvidia.com/gpu.sliced.memory-percentage": 50}
PARTITION = {"nvidia.com/gpu.partitioned": 1, "nvidia.com/gpu.partitioned.mig-1g.10gb": 1}

ONE_MIG_A100 = "cards: [{model: NVIDIA A100-SXM4-80GB, manufacturer: nvidia, count: 1, memoryMib: 81920, mig: true}]"


async def test_a_full_disk_refuses_and_recovers(agent, pods, eventually):
    with _small_disk(agent.state_dir) as disk:
        await agent.start()
        _fill(disk / "ballast")

        assert "No space left on device" in await _refused(pods, "while-full", HALF, eventually)

        (disk / "ballast").unlink()
        await pods.run("after", **HALF)
        assert [card["allocated"] for card in await agent.cards()].count(800_000) == 1
        await pods.clear()
        await agent.stop()


async def test_an_agent_that_starts_on_a_full_disk_says_so_and_leaves_the_journal_whole(agent, pods):
    with _small_disk(agent.state_dir) as disk:
        await agent.start()
        await pods.run("half", **HALF)
        record = await pods.record("half")
        await agent.kill()
        journal = (disk / "journal").read_bytes()
        _fill(disk / "ballast")

        process = agent.spawn()
        code = await to_thread.run_sync(lambda: process.wait(30))

        assert code != 0
        assert "No space left on device" in agent.log.read_text()
        assert "Traceback" not in agent.log.read_text()
        assert (disk / "journal").read_bytes() == journal

        (disk / "ballast").unlink()
        await agent.start()
        assert await pods.record("half") == record
        assert [card["allocated"] for card in await agent.cards()].count(800_000) == 1
        await pods.clear()
        await agent.stop()


async def test_a_read_only_state_directory_is_named_and_nothing_is_served(agent):
    with _small_disk(agent.state_dir) as disk:
        _mount("-o", "remount,ro", str(disk))

        process = agent.spawn()
        code = await to_thread.run_sync(lambda: process.wait(30))

        assert code != 0
        said = agent.log.read_text()
        assert f"{agent.state_dir} cannot be written: Read-only file system" in said
        assert "Traceback" not in said


async def test_markers_that_cannot_be_written_refuse_the_partition_and_give_its_place_back(agent, pods, eventually):
    with _small_disk(agent.state_dir / "partitions") as disk:
        await agent.start(ONE_MIG_A100, serves="nvidia.com/gpu.partitioned")

        _fill(disk / "ballast")
        assert "No space left on device" in await _refused(pods, "while-full", PARTITION, eventually)
        (disk / "ballast").unlink()
        _mount("-o", "remount,ro", str(disk))
        assert "Read-only file system" in await _refused(pods, "while-read-only", PARTITION, eventually)
        _mount("-o", "remount,rw", str(disk))

        await pods.run("after", **PARTITION)

        async def only_one():
            return [card["allocatedProfiles"] for card in await agent.cards()] == [[{"name": "1g.10gb", "count": 1}]]

        await eventually("only the last holds a place", only_one)
        await pods.clear()
        await agent.stop()


async def test_a_damaged_journal_costs_nothing_that_the_kubelet_and_the_records_know(agent, pods):
    await agent.start()
    await pods.run("half", **HALF)
    before = await agent.cards()

    await agent.kill()
    (agent.state_dir / "journal").write_bytes(b'\x00\xff{"promise": nonsense}\n{"promise": {"torn')
    await agent.start()

    assert await agent.cards() == before
    await pods.run("other-half", **HALF)
    assert (await pods.record("other-half"))["main"] == (await pods.record("half"))["main"]


async def test_a_damaged_marker_keeps_its_place_and_troubles_nobody_else(agent, pods, eventually):
    await agent.start(ONE_MIG_A100, serves="nvidia.com/gpu.partitioned")
    await pods.run("damaged", **PARTITION)
    (marker,) = (agent.state_dir / "partitions").glob("*.json")

    await agent.kill()
    intact = marker.read_bytes()
    marker.write_bytes(b"{")
    await agent.start(ONE_MIG_A100, serves="nvidia.com/gpu.partitioned")
    await pods.run("other", **PARTITION)

    places = [(await pods.record(name))["main"][0]["allocatedPhysicalPlacements"] for name in ("damaged", "other")]
    assert places[0] != places[1]
    marker.write_bytes(intact)  # a person has looked at it


async def test_a_dead_socket_in_the_kubelets_place_is_waited_out(agent, pods, eventually):
    await agent.start()
    plugins = agent.node.kubelet_dir / "device-plugins"
    real, aside = plugins / "kubelet.sock", plugins / "kubelet.sock.aside"

    real.rename(aside)
    try:
        _dead_socket(real)
        await eventually("the agent says that nobody answers", lambda: _says(agent, "not registered with"))
        assert agent.alive
    finally:
        aside.replace(real)

    await eventually("the node offers its cards again", lambda: _offers(agent, 4))
    await pods.run("after", **HALF)


async def test_a_clock_set_back_an_hour_changes_nothing(agent, pods, eventually):
    clock = agent.directory / "clock"
    clock.write_text("+0")
    await agent.start(
        LD_PRELOAD=str(_faketime()), FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_NO_CACHE="1", DONT_FAKE_MONOTONIC="1"
    )
    await pods.run("before", **HALF)

    clock.write_text("-3600")
    await pods.run("after", **HALF)

    assert (await pods.record("after"))["main"] == (await pods.record("before"))["main"]
    await pods.delete("before")

    async def half_left():
        return [card["allocated"] for card in await agent.cards()].count(800_000) == 1

    await eventually("what it held is free", half_left)


async def _refused(pods, name, limits, eventually):
    """The kubelet's word on a Pod that could not be admitted."""
    await pods.create(name, container("main", limits))

    async def failed():
        status = (await pods.get(name))["status"]
        assert status["phase"] in ("Pending", "Failed"), status
        return status.get("message") if status["phase"] == "Failed" else None

    message = await eventually(f"{name} is refused", failed)
    await pods.delete(name)
    return message


async def _offers(agent, count):
    return await agent.allocatable("nvidia.com/gpu") == count


async def _says(agent, words):
    return words in await to_thread.run_sync(agent.log.read_text)


@contextmanager
def _small_disk(directory):
    directory.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(directory))
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def _mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


def _fill(path):
    """Write until the disk takes no more, down to the last byte."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def _dead_socket(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def _faketime():
    found = next(iter(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
    assert found, "install Debian's libfaketime"
    return found
