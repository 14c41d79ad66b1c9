"""Slices held to their budget: what each manufacturer's container is given, and what it is refused for."""

from dataclasses import replace

import pytest

from gpustack_ctl.accel.families import Family
from gpustack_ctl.agent.responders import ascend, hygon, metax
from gpustack_ctl.agent.responders.ascend import AscendEnforcer, SharingAscendCards
from gpustack_ctl.agent.responders.cambricon import CambriconEnforcer
from gpustack_ctl.agent.responders.enforcer import Budget, ReleaseError, SlicingResponder
from gpustack_ctl.agent.responders.host import Host
from gpustack_ctl.agent.responders.hygon import HygonEnforcer, Vdev
from gpustack_ctl.agent.responders.metax import MetaxEnforcer, SysfsSubdevices
from gpustack_ctl.agent.responders.responder import HostMount, Response, ResponseRefused
from gpustack_ctl.agent.switches import Switches
from tests.unit.agent.responders.drivers import Flag, SgpuDriver, SmluDriver
from tests.unit.agent.responders.grants import TABLE, a_host, bus_id, grant, respond

FIRST = bus_id(0)


class Shown:
    """A card that is shown by one variable."""

    async def respond(self, grant):
        return Response(envs={"SHOWN": ",".join(card.id for card in grant.cards)})


def _slicing(manufacturer, enforcer):
    return SlicingResponder(TABLE.by_key[manufacturer], Shown(), enforcer, switches=Switches())


def _slice(manufacturer, **asked):
    return grant(Family.SLICED, manufacturer=manufacturer, **asked)


# What every enforcer shares.


@pytest.mark.parametrize("manufacturer", ["ascend", "cambricon", "hygon", "metax", "mthreads"])
async def test_a_bare_host_is_told_what_it_lacks_on_which_card_and_the_way_past(tmp_path, manufacturer):
    with pytest.raises(ResponseRefused) as refused:
        await respond(_slice(manufacturer), tmp_path)

    message = str(refused.value)
    assert message.startswith("the slice on GPU-0 cannot be enforced: ")
    assert f"GPUSTACK_{manufacturer.upper()}_SLICE_ISOLATION=off" in message
    assert not (tmp_path / "pods").exists()


@pytest.mark.parametrize("manufacturer", ["mthreads"])
async def test_without_isolation_a_slice_is_shown_its_card_and_no_limit(tmp_path, manufacturer):
    off = {f"GPUSTACK_{manufacturer.upper()}_SLICE_ISOLATION": "off"}

    assert (await respond(_slice(manufacturer), tmp_path, **off)).envs == {"MTHREADS_VISIBLE_DEVICES": "GPU-0"}


async def test_a_slice_of_two_cards_is_refused(tmp_path):
    with pytest.raises(ResponseRefused, match="one card"):
        await respond(_slice("mthreads", cards=(0, 1)), tmp_path)


async def test_a_budget_is_at_most_the_card(tmp_path):
    host = a_host(tmp_path, "/sys/module/sgpu_km/version")

    envs = (await respond(_slice("mthreads", memory_mib=99999), tmp_path, host=host)).envs

    assert envs["MTHREADS_QOS_MEMORY_LIMIT"] == str(24576 * 2**20)


# MThreads.


async def test_mthreads_is_told_bytes_and_a_weight(tmp_path):
    host = a_host(tmp_path, "/sys/module/sgpu_km/version")

    assert (await respond(_slice("mthreads"), tmp_path, host=host)).envs == {
        "MTHREADS_VISIBLE_DEVICES": "GPU-0",
        "MTHREADS_QOS_MEMORY_LIMIT": str(12288 * 2**20),
        "MTHREADS_QOS_COMPUTING_POWER_WEIGHT": "30",
    }


# Hygon.


def _hygon(tmp_path):
    host = a_host(tmp_path, "/dev/kfd", "/dev/mkfd", "/opt/dtk/env.sh")
    return HygonEnforcer(host, pods_dir=tmp_path / "pods")


def _vdev(tmp_path, uid):
    return hygon.read((tmp_path / "pods" / uid / "main" / "vdev" / "vdev0.conf").read_text())


async def test_hygon_is_given_a_file_that_says_all_and_cannot_be_written(tmp_path):
    response = await _slicing("hygon", _hygon(tmp_path)).respond(_slice("hygon", units=60, cores=25))

    directory = tmp_path / "pods" / "uid-1" / "main" / "vdev"
    assert HostMount("/etc/vdev/docker", str(directory), read_only=True) in response.mounts
    assert (directory / "vdev0.conf").read_text() == (
        f"PciBusId: {FIRST}\ncu_mask: 0x0000000000007fff\ncu_mask: 0x0000000000000000\ncu_count: 15\n"
        "mem: 12288 MiB\ndevice_id: 0\nvdev_id: 0\npipe_id: 0\nenable: 1\n"
    )


async def test_hygon_slices_share_no_compute_unit_and_no_number(tmp_path):
    enforcer = _slicing("hygon", _hygon(tmp_path))
    for uid, cards in (("uid-1", (0,)), ("uid-2", (0,)), ("uid-3", (1,))):
        await enforcer.respond(_slice("hygon", units=120, cores=50, uid=uid, cards=cards))

    first, second, elsewhere = (_vdev(tmp_path, uid) for uid in ("uid-1", "uid-2", "uid-3"))
    assert first.units & second.units == 0
    assert first.units | second.units == 2**120 - 1
    assert [vdev.vdev_id for vdev in (first, second, elsewhere)] == [0, 1, 2]
    assert [vdev.pipe_id for vdev in (first, second, elsewhere)] == [0, 1, 0]


async def test_hygon_answers_a_container_that_asks_again_alike(tmp_path):
    enforcer = _slicing("hygon", _hygon(tmp_path))
    asked = [_slice("hygon", units=60, cores=50, uid=uid) for uid in ("uid-1", "uid-2")]
    before = [await enforcer.respond(each) for each in asked]
    second = _vdev(tmp_path, "uid-2")
    (tmp_path / "pods" / "uid-1" / "main" / "vdev" / "vdev0.conf").unlink()

    assert await enforcer.respond(asked[1]) == before[1]
    assert _vdev(tmp_path, "uid-2") == second


async def test_hygon_refuses_compute_units_that_are_not_free(tmp_path):
    enforcer = _slicing("hygon", _hygon(tmp_path))
    await enforcer.respond(_slice("hygon", units=60, cores=70))

    with pytest.raises(ResponseRefused, match="takes 24 compute units and 18 of 60 are free"):
        await enforcer.respond(_slice("hygon", units=60, cores=40, uid="uid-2"))


async def test_hygon_takes_nothing_for_free_that_it_cannot_read(tmp_path):
    enforcer = _slicing("hygon", _hygon(tmp_path))
    await enforcer.respond(_slice("hygon", units=60))
    (tmp_path / "pods" / "uid-1" / "main" / "vdev" / "vdev0.conf").write_text("PciBusId: what")

    with pytest.raises(ResponseRefused, match="uid-1"):
        await enforcer.respond(_slice("hygon", units=60, uid="uid-2"))


def test_what_hygon_writes_it_reads():
    vdev = Vdev(FIRST, 0b1011 << 70, 4096, 3, 2)

    assert hygon.read(vdev.render()) == vdev


# Ascend.


def _ascend(tmp_path):
    lib = tmp_path / "lib" / "ascend"
    (lib / "cann-8-910b").mkdir(parents=True)
    (lib / "cann-8-910b" / "libvruntime.so").touch()
    (lib / "ld.so.preload").touch()
    return AscendEnforcer(state_dir=tmp_path)


def _npu_info(tmp_path, uid):
    return (tmp_path / "pods" / uid / "main" / "npu_info.config").read_text()


async def test_ascend_is_given_its_quota_by_the_drivers_number(tmp_path):
    asked = _slice("ascend", runtime="8.3.RC1")

    response = await _slicing("ascend", _ascend(tmp_path)).respond(asked)

    assert response.envs == {"SHOWN": "GPU-0", "ENPU_LOG_LEVEL": "1"}
    assert [mount.container_path for mount in response.mounts] == [
        "/opt/enpu/vcann-rt/lib/libvruntime.so",
        "/etc/ld.so.preload",
        "/etc/enpu/vcann-rt/npu_info.config",
    ]
    assert all(mount.read_only for mount in response.mounts)
    assert _npu_info(tmp_path, "uid-1") == (
        "physical-npu-id=10\nvirtual-npu-id=0\naicore-quota=30\nmemory-quota=12288\nshm-id=GPU-0\nscheduling-policy=2\n"
    )


async def test_ascend_slices_of_one_card_have_numbers_of_their_own_and_keep_them(tmp_path):
    enforcer = _slicing("ascend", _ascend(tmp_path))
    asked = [_slice("ascend", runtime="8.3", uid=f"uid-{number}") for number in range(3)]
    for each in asked:
        await enforcer.respond(each)
    (tmp_path / "pods" / "uid-0" / "main" / "npu_info.config").unlink()
    await enforcer.respond(asked[2])

    numbers = [ascend.read(_npu_info(tmp_path, f"uid-{number}")).virtual for number in (1, 2)]
    assert numbers == [1, 2]


async def test_ascend_leaves_the_containers_own_log_level(tmp_path):
    asked = _slice("ascend", runtime="8.3", env=("ENPU_LOG_LEVEL",))

    assert (await _slicing("ascend", _ascend(tmp_path)).respond(asked)).envs == {"SHOWN": "GPU-0"}


async def test_ascend_sets_the_share_flag_once_where_two_may_open_a_card():
    flag = Flag()
    cards = SharingAscendCards(Shown(), flag)

    for family in (Family.EXCLUSIVE, Family.SHARED, Family.SLICED, None):
        await cards.respond(grant(family, manufacturer="ascend"))

    assert flag.set_on == [10]


async def test_ascend_holds_a_whole_card_without_touching_the_flag():
    flag = Flag(refuses=True)

    await SharingAscendCards(Shown(), flag).respond(grant(Family.EXCLUSIVE, manufacturer="ascend"))


async def test_ascend_sets_a_flag_that_it_could_not_read():
    flag = Flag(unreadable=True)

    await SharingAscendCards(Shown(), flag).respond(grant(Family.SHARED, manufacturer="ascend"))

    assert flag.set_on == [10]


async def test_ascend_names_card_flag_and_command_where_the_flag_cannot_be_set():
    with pytest.raises(ResponseRefused) as refused:
        await SharingAscendCards(Shown(), Flag(refuses=True)).respond(grant(Family.SLICED, manufacturer="ascend"))

    for named in ("GPU-0", "device-share", "not supported", "npu-smi set -t device-share -i 10 -d 1"):
        assert named in str(refused.value)


async def test_ascend_shows_cards_by_the_drivers_number(tmp_path):
    envs = (await respond(grant(Family.EXCLUSIVE, manufacturer="ascend", cards=(0, 1)), tmp_path)).envs

    assert envs == {"ASCEND_VISIBLE_DEVICES": "10,11"}


# Cambricon.


async def test_cambricon_is_given_the_node_of_an_instance_made_for_it():
    driver = SmluDriver()

    response = await _slicing("cambricon", CambriconEnforcer(driver)).respond(_slice("cambricon"))

    assert driver.on
    ((card, name),) = driver.made
    assert (card, driver.made[card, name]) == (10, (30, 12288 * 2**20))
    assert [node.path for node in response.devices] == [f"/dev/cap_dev10_{name}"]


async def test_cambricon_makes_one_instance_for_a_container_that_asks_twice():
    driver = SmluDriver(on=True)
    responder = _slicing("cambricon", CambriconEnforcer(driver))

    assert await responder.respond(_slice("cambricon")) == await responder.respond(_slice("cambricon"))
    assert len(driver.made) == 1


async def test_cambricon_takes_away_the_instances_of_a_pod_and_no_others():
    driver = SmluDriver(on=True)
    responder = _slicing("cambricon", CambriconEnforcer(driver))
    for uid in ("uid-1", "uid-11"):
        await responder.respond(_slice("cambricon", uid=uid))

    await responder.release("uid-1")

    assert [name.startswith("uid-11-") for _, name in driver.made] == [True]
    await responder.release("uid-1")


async def test_cambricon_names_the_command_where_the_mode_cannot_be_turned_on():
    responder = _slicing("cambricon", CambriconEnforcer(SmluDriver(refuses="turn_on")))

    with pytest.raises(ResponseRefused, match=r"GPU-0 .*cnmon set -c 10 -smlu on"):
        await responder.respond(_slice("cambricon"))


async def test_cambricon_without_the_calls_is_refused_and_blocks_no_reclaim():
    responder = _slicing("cambricon", CambriconEnforcer(SmluDriver(absent=True)))

    with pytest.raises(ResponseRefused, match=r"libcndev\.so .*SLICE_ISOLATION=off"):
        await responder.respond(_slice("cambricon"))
    await responder.release("uid-1")


async def test_cambricon_instance_that_stays_is_tried_again():
    driver = SmluDriver(on=True)
    responder = _slicing("cambricon", CambriconEnforcer(driver))
    await responder.respond(_slice("cambricon"))

    driver.refuses = "destroy"
    with pytest.raises(ReleaseError, match="uid-1"):
        await responder.release("uid-1")
    driver.refuses = ""
    await responder.release("uid-1")

    assert driver.made == {}


# MetaX.


def _metax(tmp_path, driver):
    return _slicing("metax", MetaxEnforcer(driver, pods_dir=tmp_path / "pods"))


async def test_metax_is_told_its_subdevice_and_quota(tmp_path):
    driver = SgpuDriver()

    envs = (await _metax(tmp_path, driver).respond(_slice("metax"))).envs

    assert envs["METAX_SGPUS"] == f"sgpu={FIRST}#0;compute=30;vram=12288;alias=gpustack-uid-1"
    assert (driver.prepared, driver.made) == ([FIRST], {(FIRST, 0): 12288})


async def test_metax_leaves_the_mode_of_a_card_in_use_alone(tmp_path):
    driver = SgpuDriver()
    responder = _metax(tmp_path, driver)

    for uid in ("uid-1", "uid-2"):
        await responder.respond(_slice("metax", uid=uid))

    assert driver.prepared == [FIRST]
    assert driver.numbers(FIRST) == {0, 1}


async def test_metax_makes_one_subdevice_for_a_container_that_asks_twice(tmp_path):
    driver = SgpuDriver()
    first = await _metax(tmp_path, driver).respond(_slice("metax"))

    assert await _metax(tmp_path, driver).respond(_slice("metax")) == first
    assert driver.numbers(FIRST) == {0}


async def test_metax_takes_away_the_subdevice_of_a_pod_and_no_other(tmp_path):
    driver = SgpuDriver()
    responder = _metax(tmp_path, driver)
    for uid in ("uid-1", "uid-2"):
        await responder.respond(_slice("metax", uid=uid))

    await responder.release("uid-1")
    await responder.release("uid-1")

    assert driver.numbers(FIRST) == {1}


async def test_metax_finds_a_subdevice_whose_number_a_killed_agent_never_noted(tmp_path):
    driver = SgpuDriver()
    responder = _metax(tmp_path, driver)
    for uid in ("uid-1", "uid-2"):
        await responder.respond(_slice("metax", uid=uid))
    marker = tmp_path / "pods" / "uid-1" / "main" / "metax-sgpu.json"
    marker.write_text(replace(metax.read(marker.read_text()), number=None).render())

    await responder.release("uid-1")

    assert driver.numbers(FIRST) == {1}


async def test_metax_replaces_what_a_killed_agent_left_half_made_when_the_container_asks_again(tmp_path):
    driver = SgpuDriver()
    responder = _metax(tmp_path, driver)
    first = await responder.respond(_slice("metax"))
    marker = tmp_path / "pods" / "uid-1" / "main" / "metax-sgpu.json"
    marker.write_text(replace(metax.read(marker.read_text()), number=None).render())

    assert await responder.respond(_slice("metax")) == first
    assert driver.numbers(FIRST) == {0}


@pytest.mark.parametrize("fault", [{"refuses": "prepare"}, {"refuses": "create"}, {"silent": True}])
async def test_metax_leaves_nothing_behind_when_the_driver_fails(tmp_path, fault):
    driver = SgpuDriver(**fault)

    with pytest.raises(ResponseRefused):
        await _metax(tmp_path, driver).respond(_slice("metax"))

    assert driver.made == {}
    assert not list((tmp_path / "pods").rglob("*.json"))


async def test_metax_subdevice_that_stays_is_tried_again(tmp_path):
    driver = SgpuDriver()
    responder = _metax(tmp_path, driver)
    await responder.respond(_slice("metax"))

    driver.refuses = "destroy"
    with pytest.raises(ReleaseError, match="uid-1"):
        await responder.release("uid-1")
    driver.refuses = ""
    await responder.release("uid-1")

    assert driver.made == {}


def test_metax_files_are_written_where_the_driver_reads_them(tmp_path):
    files = Host(tmp_path).pci(FIRST) / "sgpu"
    (files / "sgpu3").mkdir(parents=True)
    (files / "create").touch()
    driver = SysfsSubdevices(Host(tmp_path))

    driver.prepare(FIRST)
    driver.create(FIRST, 4096)
    driver.destroy(FIRST, 3)

    assert driver.there(FIRST)
    assert driver.numbers(FIRST) == {3}
    assert (files.parent / "model").read_text() == "sgpu"
    written = {name: (files / name).read_text() for name in ("sched_class", "create", "destroy")}
    assert written == {"sched_class": "1", "create": "4096", "destroy": "3"}


def test_what_metax_notes_it_reads():
    marker = metax.Marker("uid-1", FIRST, Budget(30, 4096), frozenset({1, 2}), 3)

    assert metax.read(marker.render()) == marker
