"""`node-agent detect` and `preflight`, as processes of their own that find the driver's library by themselves."""

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pynvml
import pytest

from gpustack_ctl.accel.cards import cards_of
from gpustack_ctl.agent.config import BadConfigError, NodeAgentConfig
from gpustack_ctl.agent.detect import detect
from gpustack_ctl.documents.marked import DocumentError
from tests.nvml_stub.machine import StubCard, a100


@pytest.fixture
def command(nvml_library, tmp_path):
    """Runs a command; answers its exit code, stdout and stderr."""

    def run(*arguments, **env):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "GPUSTACK"))}
        done = subprocess.run(
            [sys.executable, "-m", "gpustack_ctl", "node-agent", *map(str, arguments)],
            env={**kept, "HOME": str(tmp_path), "LD_LIBRARY_PATH": str(nvml_library.parent), **env},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout, done.stderr

    return run


def test_detect_prints_the_spec_and_a_recording_replays_it(command, machine, tmp_path):
    machine(a100("GPU-0"), StubCard("GPU-1", advice=1))
    recording = tmp_path / "machine.json"

    code, out, err = command("detect", "--output", "json", "--record", recording)
    assert code == 0, err
    assert [(card.id, card.partitioned, card.healthy) for card in cards_of(orjson.loads(out))] == [
        ("GPU-0", True, True),
        ("GPU-1", False, False),
    ]

    assert command("detect", "--detector", "replay", "--inventory", recording, "--output", "json")[:2] == (0, out)


def test_detect_as_text_names_every_card(command, machine):
    machine(StubCard("GPU-0"), StubCard("GPU-1"))

    _, out, _ = command("detect")

    assert "nvidia-a10g: 2 × NVIDIA A10G, 24576 MiB, driver 570.86.15, CUDA 12.8" in out
    assert "GPU-0" in out
    assert "GPU-1" in out


def test_a_driver_that_does_not_answer_is_out_of_reach(command, machine):
    machine(StubCard("GPU-0")).fault("nvmlDeviceGetCount_v2", pynvml.NVML_ERROR_NO_PERMISSION)

    code, out, err = command("detect", "--output", "json")

    assert (code, out) == (3, "")
    assert "nvmlDeviceGetCount: Insufficient Permissions; run as root" in err


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"detector": "simulated"}, "--detector simulated needs --inventory FILE"),
        ({"detector": "replay"}, "--detector replay needs --inventory FILE"),
        ({"detector": "replay", "inventory": Path("missing.json")}, "missing.json: No such file"),
        ({"detector": "nvml", "inventory": Path("cards.yaml")}, "nvml asks the driver"),
        ({"detector": "guess"}, "write nvml, simulated or replay"),
    ],
)
async def test_flags_that_do_not_go_together_are_bad_usage(config, said):
    with pytest.raises(BadConfigError, match=said):
        await detect(NodeAgentConfig("node-1", **config))


async def test_only_the_driver_can_be_recorded(tmp_path):
    with pytest.raises(BadConfigError, match="it goes with --detector nvml"):
        await detect(NodeAgentConfig("node-1", detector="replay"), tmp_path / "machine.json")


async def test_a_bad_recording_is_named_by_line_and_field(tmp_path):
    file = tmp_path / "machine.json"
    file.write_text('{"kind": "nvml-snapshot",\n "version": 9,\n "cards": [{"uuid": "GPU-0", "nam": "A10"}]}')

    with pytest.raises(DocumentError) as raised:
        await detect(NodeAgentConfig("node-1", detector="replay", inventory=file))

    assert f"{file}:2: version: Invalid value" in str(raised.value)
    assert "did you mean name?" in str(raised.value)


def test_preflight_says_what_would_block_an_allocation(command, machine, tmp_path):
    machine(a100("GPU-0"), StubCard("GPU-1"))
    kubelet = tmp_path / "kubelet"
    (kubelet / "device-plugins").mkdir(parents=True)

    code, out, _ = command(
        *("preflight", "--output", "json", "--state-dir", tmp_path / "state", "--kubelet-dir", kubelet),
        GPUSTACK_NVIDIA_DEVICE_INJECTION_STRATEGY="cdi-annotations",
    )

    findings = {finding["check"]: finding for finding in orjson.loads(out)}
    assert code == 1
    assert {check: finding["state"] for check, finding in findings.items()} == {
        "driver": "ok",
        "accelerators": "ok",
        "partitions": "ok" if os.geteuid() == 0 else "unavailable",
        "state directory": "ok",
        "kubelet plugin directory": "ok",
        "kubelet registration socket": "unavailable",
        "kubelet pod-resources socket": "unavailable",
        "runtime class": "not-declared",
        "CDI": "unavailable",
        "slices of nvidia-a10g": "unavailable",
    }
    assert all(finding["remedy"] for finding in findings.values() if finding["state"] == "unavailable")
    assert "cuda-12" in findings["slices of nvidia-a10g"]["reason"]


def test_preflight_names_the_way_to_a_missing_driver(command, machine, tmp_path):
    machine(StubCard("GPU-0")).fault("nvmlInitWithFlags", pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)

    _, out, _ = command("preflight", "--output", "json", "--state-dir", tmp_path / "state")

    driver, cards = orjson.loads(out)[:2]
    assert (driver["state"], cards["state"]) == ("unavailable", "unavailable")
    assert "reboot the node" in driver["remedy"]
