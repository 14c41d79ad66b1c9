"""The calls to libcndev.so, made of a library that is really loaded and lays its structures out as the header does."""

import subprocess
from pathlib import Path

import pytest

from gpustack_ctl.agent.responders.cambricon import NoSmluError, SmluError, SmluInstance
from gpustack_ctl.agent.responders.cndev import CnDev

SOURCE = Path(__file__).parents[3] / "cndev_stub" / "cndev.c"


@pytest.fixture
def library(tmp_path):
    """A fresh copy for each test: the loader knows libraries by their file, and this one remembers."""
    path = tmp_path / "libcndev.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(path), str(SOURCE)], check=True)
    return path


def test_the_mode_is_read_and_turned_on_card_by_card(library):
    cndev = CnDev(str(library))
    assert cndev.cards() == 2

    cndev.turn_on(1)

    assert [cndev.is_on(card) for card in range(2)] == [False, True]


def test_an_instance_is_made_listed_with_its_node_and_destroyed(library):
    cndev = CnDev(str(library))
    cndev.turn_on(0)

    cndev.create(0, "uid-1-main", quota=30, memory_bytes=12 * 2**30)
    cndev.create(0, "uid-2-main", quota=50, memory_bytes=4 * 2**30)

    assert cndev.instances(0) == [
        SmluInstance("uid-1-main", "/dev/cambricon-caps/cap_dev0_mi0"),
        SmluInstance("uid-2-main", "/dev/cambricon-caps/cap_dev0_mi1"),
    ]
    cndev.destroy(0, "uid-1-main")
    assert [instance.name for instance in cndev.instances(0)] == ["uid-2-main"]
    assert cndev.instances(1) == []


def test_a_profile_of_the_same_figures_is_used_again(library):
    cndev = CnDev(str(library))
    cndev.turn_on(0)

    for name, quota in (("a", 30), ("b", 30), ("c", 31)):
        cndev.create(0, name, quota=quota, memory_bytes=2**32)

    assert [instance.node[-1] for instance in cndev.instances(0)] == ["0", "0", "1"]


def test_a_refused_call_is_named_with_its_code(library):
    with pytest.raises(SmluError, match="cndevCreateSMluProfileInfo failed with cnDev code 6"):
        CnDev(str(library)).create(0, "a", quota=30, memory_bytes=2**32)
    with pytest.raises(SmluError, match="cndevGetDeviceHandleByIndex"):
        CnDev(str(library)).is_on(7)


def test_a_host_without_the_library_or_the_call_has_no_smlu(tmp_path):
    with pytest.raises(NoSmluError, match="cannot be loaded"):
        CnDev(str(tmp_path / "libcndev.so")).is_on(0)

    old = tmp_path / "old.so"
    subprocess.run(["gcc", "-shared", "-xc", "-o", str(old), "-"], input=b"int cndevInit(int r){return r;}", check=True)
    with pytest.raises(NoSmluError, match="has no cndevGetDeviceHandleByIndex"):
        CnDev(str(old)).is_on(0)
