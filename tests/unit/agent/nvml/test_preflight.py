"""Checks that need a kubelet's sockets, a staged library or a CDI specification to pass."""

from pathlib import Path

import anyio

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.agent.detectors.replay import ReplayDetector
from gpustack_ctl.agent.nvml.snapshot import CardReading, Snapshot
from gpustack_ctl.agent.preflight import kubelet, runtime, slices
from gpustack_ctl.agent.preflight.finding import State
from gpustack_ctl.agent.switches import switches

TABLE = manufacturers()
NVIDIA = [TABLE.by_key["nvidia"]]


async def _found():
    card = CardReading(0, "GPU-0", "NVIDIA A10G", 24 * 1024**3)
    return await ReplayDetector(Snapshot("570.86.15", "12.8", (card,)), table=TABLE).detect()


async def test_a_listening_kubelet_passes(tmp_path: Path) -> None:
    (tmp_path / "device-plugins").mkdir()
    async with await anyio.create_unix_listener(tmp_path / "device-plugins/kubelet.sock"):
        finding = await kubelet.plugin_socket(tmp_path)

    assert finding.state is State.OK


async def test_a_stale_socket_does_not_pass(tmp_path: Path) -> None:
    (tmp_path / "device-plugins").mkdir()
    async with await anyio.create_unix_listener(tmp_path / "device-plugins/kubelet.sock"):
        pass

    finding = await kubelet.plugin_socket(tmp_path)

    assert finding.state is State.UNAVAILABLE
    assert "refused" in finding.reason


async def test_a_kubelet_nobody_asks_is_not_declared(tmp_path: Path) -> None:
    assert (await kubelet.pod_resources(tmp_path, wanted=False)).state is State.NOT_DECLARED


def test_a_state_directory_that_is_a_file_does_not_pass(tmp_path: Path) -> None:
    (tmp_path / "state").touch()

    assert kubelet.state_directory(tmp_path / "state").state is State.UNAVAILABLE


def test_a_specification_of_the_kind_satisfies_cdi(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.yaml").write_text("kind: vendor.com/net\ndevices: [{name: a}]\n")
    assert runtime.cdi(NVIDIA, wanted=("nvidia",), directories=[tmp_path]).state is State.UNAVAILABLE

    (tmp_path / "nvidia.yaml").write_text("kind: nvidia.com/gpu\ndevices: [{name: GPU-0}]\n")

    assert runtime.cdi(NVIDIA, wanted=("nvidia",), directories=[tmp_path]).state is State.OK


async def test_slices_pass_once_the_library_is_staged_or_isolation_is_off(tmp_path: Path) -> None:
    async def state(**env: str) -> State:
        turned = switches(env, manufacturers=TABLE.by_key)
        findings = slices.enforcement(found, table=TABLE, switches=turned, state_dir=tmp_path)
        (finding,) = [finding async for finding in findings]
        return finding.state

    found = await _found()
    assert await state() is State.UNAVAILABLE
    assert await state(GPUSTACK_NVIDIA_SLICE_ISOLATION="off") is State.NOT_DECLARED

    staged = tmp_path / "lib/nvidia/cuda-12"
    staged.mkdir(parents=True)
    for name in ("libvgpu.so", "ld.so.preload"):
        (staged / name).touch()

    assert await state() is State.OK
