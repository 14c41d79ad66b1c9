"""Names of flavors, queues and entrances, with the answers that other programs rely on."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.accel.naming import (
    akey,
    entrance_name,
    flavor_name,
    fnv64,
    gkey,
    group_id,
    object_name,
    queue_name,
    topology_name,
)

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("", "cbf29ce484222325"),
        ("a", "af63dc4c8601ec8c"),
        ("gpustack--generic-linux-amd64", "3b93966fd73eb9ec"),
        ("gpustack--nvidia-a10g-linux-amd64", "c4680bb149644f1c"),
        ("gpustack--nvidia-tesla-t4-linux-amd64", "6b371caa2da0b799"),
    ],
)
def test_fnv_1a_64_known_answers(text: str, digits: str) -> None:
    assert fnv64(text) == digits


def test_an_entrance_fits_a_label_value() -> None:
    assert entrance_name("gpustack--nvidia-a10g-linux-amd64") == "gpustack-fnv64-c4680bb149644f1c"
    assert len(entrance_name("x" * 253)) == 31


@pytest.mark.parametrize(
    ("product", "manufacturer", "group"),
    [
        ("NVIDIA A100-SXM4-80GB", "nvidia", "a100-sxm4-80gb"),
        ("Tesla T4", "nvidia", "tesla-t4"),
        ("NVIDIA A10G", "nvidia", "a10g"),
        ("NVIDIA GeForce RTX 4090", "nvidia", "geforce-rtx-4090"),
        ("  NVIDIA  H100 80GB HBM3 ", "nvidia", "h100-80gb-hbm3"),
        ("Ascend910B3", "ascend", "ascend910b3"),
        ("MetaX C500", "metax", "c500"),
        ("MLU370-X8 v1.2", "cambricon", "mlu370-x8-v1.2"),
        ("BW100 (64GB)", "hygon", "bw100-64gb"),
        ("NVIDIA", "nvidia", "nvidia"),
        ("显卡", "nvidia", "generic"),
    ],
)
def test_a_group_is_called_after_its_product(product: str, manufacturer: str, group: str) -> None:
    assert group_id(product, manufacturer) == group


def test_memory_is_part_of_the_group_only_when_asked_for() -> None:
    assert group_id("NVIDIA A10G", "nvidia", memory_mib=24_576) == "a10g-24gb"


@pytest.mark.parametrize(
    ("manufacturer", "product", "key"),
    [
        ("amd", "AMD EPYC 7R32", "amd-epyc-7r32"),
        ("intel", "Intel(R) Xeon(R) Platinum 8259CL", "intel-r-xeon-r-platinum-8259cl"),
        ("", "", "generic"),
        ("amd", "", "generic"),
    ],
)
def test_a_cpu_key(manufacturer: str, product: str, key: str) -> None:
    assert gkey(manufacturer, product) == key


@given(product=st.text(max_size=300))
def test_a_key_always_leaves_room_for_its_attributes_in_a_label_name(product: str) -> None:
    key = akey("nvidia", group_id(product, "nvidia"))
    assert len(f"{key}.capacity") <= 63
    assert _LABEL_NAME.fullmatch(f"{key}.capacity")


def test_two_long_products_do_not_become_one_group() -> None:
    long = "NVIDIA " + "very " * 20
    assert group_id(long + "one", "nvidia") != group_id(long + "two", "nvidia")


def test_flavor_names() -> None:
    hardware = {"os": "linux", "arch": "amd64", "profile": "fnv64-0123456789abcdef"}
    assert (
        flavor_name(gkey="amd-epyc-7r32", akey=None, count=16, **hardware) == "gpustack--amd-epyc-7r32-linux-amd64-16c"
    )
    assert (
        flavor_name(gkey="amd-epyc-7r32", akey="nvidia-a10g", count=4, **hardware)
        == "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64-4d"
    )


def test_another_topology_shape_of_the_same_hardware_has_a_flavor_of_its_own() -> None:
    hardware = {"gkey": "generic", "akey": None, "os": "linux", "arch": "amd64", "count": 8}
    flat = flavor_name(**hardware, profile="fnv64-0123456789abcdef")
    deep = flavor_name(**hardware, profile="fnv64-0123456789abcdef", hostname_only=False)
    assert deep == f"{flat}-fnv64-0123456789abcdef"


@pytest.mark.parametrize(
    ("akey", "aware", "name"),
    [
        (None, False, "gpustack--generic-linux-amd64"),
        ("nvidia-a10g", False, "gpustack--nvidia-a10g-linux-amd64"),
        (None, True, "gpustack--amd-epyc-7r32-linux-amd64"),
        ("nvidia-a10g", True, "gpustack--amd-epyc-7r32--nvidia-a10g-linux-amd64"),
    ],
)
def test_queue_names(akey: str | None, aware: bool, name: str) -> None:
    assert queue_name(gkey="amd-epyc-7r32", akey=akey, os="linux", arch="amd64", aware=aware) == name


@given(st.lists(st.text("abz09-.", max_size=63), min_size=1, max_size=6))
def test_every_name_is_one_that_kubernetes_takes(parts: list[str]) -> None:
    keys = [part.strip("-.") or "x" for part in parts]
    name = object_name("gpustack--" + "-".join(keys))
    assert len(name) <= 253
    assert all(len(label) <= 253 for label in name.split("."))
    assert _SUBDOMAIN.fullmatch(name)


def test_names_at_the_limit_stay_whole_and_names_past_it_keep_apart() -> None:
    assert object_name("x" * 253) == "x" * 253
    one, two = object_name("x" * 300 + "1"), object_name("x" * 300 + "2")
    assert len(one) == len(two) == 253
    assert one != two


def test_a_topology_is_called_after_its_profile() -> None:
    assert topology_name("fnv64-0123456789abcdef") == "gpustack-fnv64-0123456789abcdef"
