"""What the driver says becomes the node's cards, and a driver in trouble takes none of them away."""

import anyio
import pynvml
import pytest

from gpustack_ctl.accel.cards import PodKey, cards_of
from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.agent.detectors.detector import DetectionError, inventories
from gpustack_ctl.agent.detectors.nvml import NvmlDetector
from gpustack_ctl.agent.detectors.replay import ReplayDetector
from gpustack_ctl.agent.inventory import Inventory
from gpustack_ctl.agent.nvml.snapshot import format_snapshot, read_snapshot
from gpustack_ctl.agent.partition_markers import Instance, Marker, Markers, Place
from tests.nvml_stub.machine import A100_80, GIB, StubCard, a100

TABLE = manufacturers()

#: Calls that a card or a driver may not know; what they would tell is then left out.
OPTIONAL = (
    "nvmlDeviceGetNumGpuCores",
    "nvmlDeviceGetPciInfoExt",
    "nvmlDeviceGetMemoryAffinity",
    "nvmlDeviceGetCpuAffinity",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetSupportedEventTypes",
)
NEEDED = (
    "nvmlInitWithFlags",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlEventSetCreate",
)
#: Of these no card is to blame: an error that says "lost" fails the whole pass like any other.
OF_THE_MACHINE = NEEDED[:4]
LOST = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
CODES = tuple(
    sorted(value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_") and isinstance(value, int))
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def detector(nvml, tmp_path):
    """Makes detectors of this machine; `sysfs` is empty unless a test fills it."""

    def make(**options):
        return NvmlDetector(
            nvml,
            Markers(tmp_path / "markers"),
            table=TABLE,
            **{"sysfs": tmp_path / "sys", "period_seconds": 0.1, **options},
        )

    return make


def _cards(inventory):
    return [card for model in inventory.models for card in model.cards]


async def test_a_card_is_published_as_the_driver_describes_it(machine, detector):
    machine(StubCard("GPU-0", cpus="ffff,ffff", numa=1, bus_id="00000000:65:00.0"))

    (group,) = (await detector().detect()).spec()["groups"]

    assert {key: group[key] for key in group if key not in ("accelerators", "acceleratorSlicedDetail")} == {
        "id": "a10g",
        "manufacturer": "nvidia",
        "name": "NVIDIA A10G",
        "memory": 24576,
        "cores": 9216,
        "driverVersion": "570.86.15",
        "runtimeVersion": "12.8",
        "computeCapability": "8.6",
        "family": "ampere",
    }
    (card,) = group["accelerators"]
    assert (card["id"], card["index"], card["status"]["unhealthy"]) == ("GPU-0", 0, False)
    assert card["topology"] == {
        "pciBusId": "0000:65:00.0",
        "pciClass": "030200",
        "numaAffinity": "1",
        "cpuAffinity": "0-15,64-79",
    }
    assert card["status"]["logicalSliced"] == {"count": 128, "coresPercentageOvercommit": True}


async def test_the_kernel_tells_the_root_and_what_the_driver_leaves_out(machine, detector, tmp_path):
    machine(StubCard("GPU-0", numa=None, pci_class="0"))
    real = tmp_path / "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
    real.mkdir(parents=True)
    (real / "class").write_text("0x030000\n")
    (real / "numa_node").write_text("3\n")
    listed = tmp_path / "sys/bus/pci/devices"
    listed.mkdir(parents=True)
    (listed / "0000:01:00.0").symlink_to(real)

    (card,) = _cards(await detector().detect())

    assert card.location.pci_root_id == "pci0000:00"
    assert card.location.pci_class == "030000"
    assert card.location.numa == 3


async def test_a_card_in_mig_mode_is_partitioned_and_offers_what_a_key_can_name(machine, detector):
    machine(a100("GPU-0"), a100("GPU-1", mig=False))

    spec = (await detector().detect()).spec()
    cut, whole = cards_of(spec)

    assert cut.partitioned
    assert (cut.slots, cut.whole_capable) == (0, False)
    assert whole.whole_capable
    assert whole.slots == 128
    offered = {profile.name: (profile.count, len(profile.placements)) for profile in cut.profiles}
    assert offered == {name: (count, len(starts)) for *_, count, _, name, _, starts in A100_80 if "+" not in name}
    assert cut.profile("3g.40gb").memory_slices == 4


async def test_the_room_of_instances_that_were_not_made_for_pods_is_not_offered(machine, detector, tmp_path):
    stub = machine(a100("GPU-0"))
    stub.put("GPU-0", 9, 0, 4, "MIG-theirs", number=1)
    stub.put("GPU-0", 15, 6, 2, "MIG-ours", number=2)
    ours = Instance(Place("GPU-0", "1g.20gb", Placement(6, 2)))
    Markers(tmp_path / "markers").write(Marker(PodKey("default", "pod", "uid-1"), "main", (ours,)))

    (card,) = _cards(await detector().detect())

    starts = {profile.name: [place.start for place in profile.placements] for profile in card.profiles}
    assert starts == {"1g.10gb": [4, 5, 6], "1g.20gb": [4, 6], "2g.20gb": [4], "3g.40gb": [4]}


async def test_a_driver_that_names_no_profiles_has_them_named_for_it(machine, detector):
    stub = machine(a100("GPU-0"))
    with_names = await detector().detect()
    stub.profile_names = False
    stub.save()

    assert await detector().detect() == with_names


async def test_turning_mig_on_and_off_is_seen_without_a_restart(machine, detector):
    stub = machine(a100("GPU-0", mig=False))
    found = inventories(detector())
    seen = [cards_of((await anext(found)).spec())[0].partitioned]
    for mig in (True, False):
        stub.change(0, mig=mig)
        with anyio.fail_after(5):
            seen.append(cards_of((await anext(found)).spec())[0].partitioned)

    assert seen == [False, True, False]


async def test_cards_come_and_go(machine, detector):
    stub = machine(StubCard("GPU-0"))
    finder = detector()
    counts = [len(_cards(await finder.detect()))]
    stub.cards.append(StubCard("GPU-1"))
    stub.save()
    counts.append(len(_cards(await finder.detect())))
    stub.cards.pop(0)
    stub.save()

    assert [card.id for card in _cards(await finder.detect())] == ["GPU-1"]
    assert counts == [1, 2]


@pytest.mark.parametrize(
    ("xid", "healthy"), [(13, True), (31, True), (43, True), (48, False), (79, False), (94, False)]
)
async def test_an_xid_of_the_card_makes_it_ill_and_one_of_a_program_does_not(machine, detector, xid, healthy):
    stub = machine(StubCard("GPU-0"), StubCard("GPU-1"))
    finder = detector(period_seconds=30)
    await finder.detect()
    stub.tell("GPU-1", pynvml.nvmlEventTypeXidCriticalError, xid)

    with anyio.fail_after(5):
        await finder.changed()

    assert [card.healthy for card in _cards(await finder.detect())] == [True, healthy]


async def test_a_card_is_well_again_when_the_driver_wants_nothing_done_and_calm_has_lasted(machine, detector):
    stub, clock = machine(StubCard("GPU-0")), Clock()
    finder = detector(period_seconds=30, clock=clock)
    await finder.detect()
    stub.tell("GPU-0", pynvml.nvmlEventTypeXidCriticalError, 79)
    await finder.changed()

    health = []
    for seconds, advice in ((1, 0), (59, 0), (61, 1), (62, 0)):
        clock.now = seconds
        stub.change(0, advice=advice)
        health.append(_cards(await finder.detect())[0].healthy)

    assert health == [False, False, False, True]


async def test_without_advice_only_a_reset_ends_an_illness(machine, detector):
    stub, clock = machine(StubCard("GPU-0", advice=None)), Clock()
    finder = detector(period_seconds=30, clock=clock)
    await finder.detect()
    stub.tell("GPU-0", pynvml.nvmlEventTypeXidCriticalError, 79)
    await finder.changed()
    clock.now = 3600
    before = _cards(await finder.detect())[0].healthy
    stub.fault("nvmlDeviceGetHandleByIndex_v2", pynvml.NVML_ERROR_GPU_IS_LOST, times=1)
    away = _cards(await finder.detect())[0].healthy

    assert (before, away, _cards(await finder.detect())[0].healthy) == (False, False, True)


async def test_a_driver_that_wants_a_reset_has_an_unhealthy_card_before_any_event(machine, detector):
    machine(StubCard("GPU-0", advice=pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET))

    assert not _cards(await detector().detect())[0].healthy


@pytest.mark.parametrize("code", LOST)
async def test_a_lost_card_keeps_its_name_and_the_others_their_health(machine, detector, code):
    stub = machine(StubCard("GPU-0"), StubCard("GPU-1"))
    finder = detector()
    await finder.detect()
    stub.fault("*", code, card="GPU-0")

    assert [(card.id, card.healthy) for card in _cards(await finder.detect())] == [("GPU-0", False), ("GPU-1", True)]
    stub.heal()
    assert [card.healthy for card in _cards(await finder.detect())] == [True, True]


async def test_a_card_lost_before_it_was_ever_seen_is_left_out(machine, detector):
    machine(StubCard("GPU-0"), StubCard("GPU-1")).fault("*", pynvml.NVML_ERROR_GPU_IS_LOST, card="GPU-0")

    assert [card.id for card in _cards(await detector().detect())] == ["GPU-1"]


@pytest.mark.parametrize("call", NEEDED)
async def test_every_error_of_a_needed_call_fails_the_pass_and_the_next_one_recovers(machine, nvml, detector, call):
    stub = machine(StubCard("GPU-0"))
    for code in CODES:
        if code in LOST and call not in OF_THE_MACHINE:
            continue
        await nvml.close()  # so that opening the library is among what is tried
        finder = detector()
        stub.fault(call, code, times=1)
        with pytest.raises(DetectionError, match="NVML: nvml"):
            await finder.detect()
        assert [card.id for card in _cards(await finder.detect())] == ["GPU-0"]


@pytest.mark.parametrize("call", OPTIONAL)
async def test_what_a_card_does_not_tell_is_left_out(machine, detector, call):
    stub = machine(StubCard("GPU-0"))
    stub.fault(call, pynvml.NVML_ERROR_NOT_SUPPORTED)

    (card,) = _cards(await detector().detect())

    assert (card.id, card.healthy) == ("GPU-0", True)


async def test_a_failed_pass_keeps_the_last_good_answer(machine, detector):
    stub = machine(StubCard("GPU-0"))
    found = inventories(detector(), retry_seconds=0.01)
    assert len(_cards(await anext(found))) == 1
    stub.fault("nvmlDeviceGetCount_v2", pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    with anyio.move_on_after(0.5) as waited:
        await anext(found)

    assert waited.cancelled_caught  # nothing was said of a node without cards


async def test_no_driver_is_no_accelerators_only_where_the_bus_has_none(machine, detector, tmp_path):
    machine(StubCard("GPU-0")).fault("nvmlInitWithFlags", pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    finder = detector()
    with pytest.raises(DetectionError, match="nvmlInit: Driver Not Loaded"):
        await finder.detect()  # the kernel shows no bus: that proves nothing

    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    assert await finder.detect() == Inventory()

    (bus / "0000:01:00.0").mkdir()
    (bus / "0000:01:00.0/vendor").write_text("0x10de\n")
    (bus / "0000:01:00.0/class").write_text("0x030200\n")
    with pytest.raises(DetectionError):
        await finder.detect()


async def test_two_cards_of_one_name_are_refused(machine, detector):
    machine(StubCard("GPU-0"), StubCard("GPU-0"))

    with pytest.raises(DetectionError, match="names 2 cards GPU-0"):
        await detector().detect()


async def test_models_are_told_apart_by_memory_only_when_asked_to(machine, detector):
    machine(
        StubCard("GPU-0", name="NVIDIA A100", memory=40 * GIB), StubCard("GPU-1", name="NVIDIA A100", memory=80 * GIB)
    )

    (together,) = (await detector().detect()).models
    apart = (await detector(group_id_with_memory=True).detect()).models

    assert (together.group, together.memory_mib) == ("a100", 40960)
    assert [model.group for model in apart] == ["a100-40gb", "a100-80gb"]


async def test_a_recording_replays_as_the_same_inventory(machine, detector):
    machine(a100("GPU-0"), StubCard("GPU-1", advice=1), StubCard("GPU-2", numa=None))
    finder = detector()
    recording = format_snapshot(await finder.snapshot())

    replay = ReplayDetector(read_snapshot(recording.decode(), source="machine.json"), table=TABLE)

    assert await replay.detect() == await finder.detect()
