"""What the agent survives: its own death, the kubelet's, the API server's, and a twin."""

import subprocess

import anyio
from anyio import to_thread

from gpustack_ctl.kube.resources import DEVICES, NODES, PODS

RECORD = "device.gpustack.ai/accelerator.allocated"
HALF = {"nvidia.com/gpu.sliced": 1, "nvidia.com/gpu.sliced.memory-percentage": 50}


async def test_after_kill_9_the_ledger_is_as_before(agent, pods):
    await agent.start()
    await pods.run("half", **HALF)
    await pods.run("whole", **{"nvidia.com/gpu": 1})
    before = await agent.cards()

    await agent.kill()
    await agent.start()

    assert await agent.cards() == before
    await pods.run("other-half", **HALF)
    assert (await pods.record("other-half"))["main"][0]["id"] == (await pods.record("half"))["main"][0]["id"]


async def test_a_record_lost_while_the_agent_was_dead_is_written_again(agent, pods, kube):
    await agent.start()
    await pods.run("half", **HALF)
    record = await pods.record("half")

    await agent.kill()
    await _write_record(kube, pods, "half", None)
    await agent.start()

    assert await pods.record("half") == record


async def test_a_record_that_somebody_garbled_is_put_right(agent, pods, kube, eventually):
    await agent.start()
    await pods.run("half", **HALF)
    record = await pods.record("half")

    await _write_record(kube, pods, "half", "{not a record")

    async def righted():
        try:
            return await pods.record("half") == record
        except ValueError:
            return False

    await eventually("the record is readable again", righted)


async def test_with_its_disk_lost_the_agent_believes_the_kubelet(agent, pods, kube):
    await agent.start()
    await pods.run("half", **HALF)
    record = await pods.record("half")

    await agent.kill()
    await _write_record(kube, pods, "half", None)
    (agent.state_dir / "journal").unlink()
    await agent.start()

    assert await pods.record("half") == record
    assert [card["allocatedSlices"] for card in await agent.cards()].count(1) == 1


async def test_a_pod_that_ended_while_the_agent_was_dead_holds_nothing(agent, pods, eventually):
    await agent.start()
    await pods.run("whole", **{"nvidia.com/gpu": 1})

    await agent.kill()
    await pods.clear()
    await agent.start()

    async def free():
        return not any(card["allocated"] for card in await agent.cards())

    await eventually("its card is free", free)
    assert (agent.state_dir / "journal").read_bytes().splitlines()[-1].startswith(b'{"release"')


async def test_a_restarted_kubelet_finds_the_plugins_again(agent, pods, control_plane, eventually):
    await agent.start()
    await pods.run("whole", **{"nvidia.com/gpu": 1})
    kubelet = f"kubelet@{agent.node.name}"

    await control_plane.kill(kubelet)
    await control_plane.start(kubelet)

    async def offered():
        return await agent.allocatable("nvidia.com/gpu.sliced") == 3 * 128

    await eventually("the kubelet counts the cards again", offered)
    assert (await pods.get("whole"))["status"]["phase"] == "Running"
    await pods.run("half", **HALF)
    held = {(await pods.record(name))["main"][0]["id"] for name in ("whole", "half")}
    assert len(held) == 2


async def test_a_second_agent_on_the_node_refuses_and_names_the_first(agent):
    await agent.start()
    said = agent.log.read_bytes()

    second = agent.spawn()
    code = await to_thread.run_sync(lambda: second.wait(30))

    assert code != 0
    assert f"pid {agent.pid}".encode() in agent.log.read_bytes().removeprefix(said)


async def test_records_follow_when_the_api_server_comes_back(agent, pods, control_plane, eventually):
    """The Pod's container is started from what the kubelet and the agent know by themselves."""
    await agent.start()
    await pods.run("before", **HALF)

    await control_plane.kill("kube-apiserver")
    await to_thread.run_sync(lambda: subprocess.run(["sleep", "5"], check=True))
    assert agent.alive
    await control_plane.start("kube-apiserver")

    await pods.run("after", **HALF)
    assert (await pods.record("after"))["main"][0]["id"] == (await pods.record("before"))["main"][0]["id"]

    async def caught_up():
        return [card["allocatedSlices"] for card in await agent.cards()] == [2, 0, 0, 0]

    await eventually("the ledger shows both", caught_up)


async def test_a_card_that_falls_ill_is_offered_no_more_until_it_recovers(agent, eventually):
    await agent.start(
        "cards:\n- {model: NVIDIA A10G, manufacturer: nvidia, count: 2, memoryMib: 24576}\n"
        "failures:\n- {at: 6, card: 1, unhealthy: true, for: 6}\n"
    )

    async def offers(count):
        return await agent.allocatable("nvidia.com/gpu") == count

    await eventually("one card is offered", lambda: offers(1))
    await eventually("both are offered again", lambda: offers(2))


async def test_node_labels_say_what_the_node_has(agent, kube, eventually):
    await agent.start()

    async def labelled():
        labels = (await kube.get(NODES, agent.node.name))["metadata"]["labels"]
        return labels if labels.get("feature.gpustack.ai/acceleratable") == "true" else None

    labels = await eventually("the node is labelled", labelled)
    prefix = "acceleratable.feature.gpustack.ai/nvidia-a10g"
    found = {key.removeprefix(prefix): value for key, value in labels.items() if key.startswith(prefix)}
    assert found == {"": "true", ".count": "4", ".product": "NVIDIA-A10G", ".memory": "24576", ".cores": "9216"}


async def test_an_agent_at_rest_writes_nothing(agent, pods, kube):
    await agent.start()
    await pods.run("half", **HALF)
    await pods.record("half")
    await anyio.sleep(2)

    async def versions():
        devices, pod = await kube.get(DEVICES, agent.node.name), await pods.get("half")
        return [obj["metadata"]["resourceVersion"] for obj in (devices, pod)]

    before, spent = await versions(), agent.cpu_seconds
    await anyio.sleep(10)

    assert await versions() == before
    assert agent.cpu_seconds - spent <= 0.1, "one per cent of a core; the goal is half of it on a quiet machine"


async def _write_record(kube, pods, name, text):
    patch = {"metadata": {"annotations": {RECORD: text}}}
    await kube.patch(PODS, name, patch, namespace=pods.namespace)
