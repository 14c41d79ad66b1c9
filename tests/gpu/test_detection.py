"""The driver's own tool and ours see the same cards."""

import csv
import subprocess
import sys
import time
from pathlib import Path

import anyio

from gpustack_ctl.agent.config import NodeAgentConfig
from gpustack_ctl.agent.detectors.nvml import NvmlDetector
from gpustack_ctl.agent.detectors.replay import ReplayDetector
from gpustack_ctl.agent.nvml.session import Nvml
from gpustack_ctl.agent.nvml.snapshot import format_snapshot, read_snapshot
from gpustack_ctl.agent.partition_markers import Markers
from gpustack_ctl.agent.preflight import State, preflight
from tests.gpu.conftest import TABLE


def smi(*fields: str) -> list[dict[str, str]]:
    """What nvidia-smi says of every card."""
    told = subprocess.run(
        ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"],
        check=True,
        capture_output=True,
        text=True,
    )
    rows = csv.reader(told.stdout.splitlines(), skipinitialspace=True)
    return [dict(zip(fields, row, strict=True)) for row in rows]


async def test_every_card_is_what_nvidia_smi_says(detector: NvmlDetector) -> None:
    found = await detector.snapshot()

    told = smi(
        "index", "uuid", "name", "memory.total", "driver_version", "compute_cap", "pci.bus_id", "mig.mode.current"
    )
    assert [(card.index, card.uuid, card.name) for card in found.cards] == [
        (int(row["index"]), row["uuid"], row["name"]) for row in told
    ]
    for card, row in zip(found.cards, told, strict=True):
        print(card)
        assert card.memory_bytes // 2**20 == int(row["memory.total"])
        assert found.driver_version == row["driver_version"]
        assert card.compute_capability == row["compute_cap"]
        assert row["pci.bus_id"].lower().endswith(card.pci_bus_id)
        assert card.mig == (row["mig.mode.current"] == "Enabled")
        assert card.cores > 0
        assert card.family
        assert card.cpus
        assert card.pci_class.startswith("03")
        assert not card.trouble


async def test_a_pass_is_quick_and_says_the_same_again(detector: NvmlDetector) -> None:
    first = await detector.detect()
    started = time.monotonic()
    again = await detector.detect()
    print(f"one pass over {sum(len(model.cards) for model in again.models)} cards: {time.monotonic() - started:.3f} s")

    assert again == first


async def test_waiting_for_events_ends_at_the_period(nvml: Nvml, tmp_path: Path) -> None:
    detector = NvmlDetector(nvml, Markers(tmp_path), table=TABLE, period_seconds=2.0)
    await detector.detect()

    with anyio.fail_after(10):
        await detector.changed()


async def test_a_recording_replays_as_the_same_inventory(detector: NvmlDetector) -> None:
    recording = format_snapshot(await detector.snapshot()).decode()

    replay = ReplayDetector(read_snapshot(recording, source="machine.json"), table=TABLE)

    assert await replay.detect() == await detector.detect()


async def test_a_programs_own_fault_leaves_its_card_healthy(detector: NvmlDetector) -> None:
    before = await detector.detect()
    with anyio.fail_after(60):
        await anyio.run_process(
            [sys.executable, "-c", "from tests.gpu.cuda import fault; fault()"], cwd=Path(__file__).parents[2]
        )
    with anyio.move_on_after(20):
        await detector.changed()

    assert await detector.detect() == before


async def test_preflight_finds_the_driver_and_healthy_cards(tmp_path: Path) -> None:
    config = NodeAgentConfig("node", state_dir=tmp_path)

    states = {finding.check: finding.state async for finding in preflight(config)}

    assert states["driver"] is State.OK
    assert states["accelerators"] is State.OK
