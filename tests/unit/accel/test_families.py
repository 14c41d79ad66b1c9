"""The table of manufacturers, and resource keys read back from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.accel.families import (
    Family,
    KeyKind,
    Mode,
    manufacturers,
    published_profile,
    transformations,
)
from gpustack_ctl.accel.units import SHARE_UNITS, M

TABLE = manufacturers()
NVIDIA = TABLE.by_key["nvidia"]
THEAD = TABLE.by_key["thead"]


@pytest.mark.parametrize(
    ("key", "pci_vendor", "base", "runtime_class", "partition_kind"),
    [
        ("amd", "1002", "amd.com/gpu", "amd", ""),
        ("ascend", "19e5", "huawei.com/npu", "ascend", ""),
        ("cambricon", "cabc", "cambricon.com/mlu", "cambricon", ""),
        ("hygon", "1d94", "hygon.com/dcu", "hygon", "mig"),
        ("iluvatar", "1e3e", "iluvatar.com/gpu", "iluvatar", ""),
        ("metax", "9999", "metax-tech.com/gpu", "metax", ""),
        ("mthreads", "1ed5", "mthreads.com/gpu", "mthreads", ""),
        ("nvidia", "10de", "nvidia.com/gpu", "nvidia", "mig"),
        ("thead", "1ded", "alibabacloud.com/ppu", "", "mig"),
    ],
)
def test_every_manufacturer_is_a_row(
    key: str, pci_vendor: str, base: str, runtime_class: str, partition_kind: str
) -> None:
    row = TABLE.by_key[key]
    assert (row.pci_vendor, row.base, row.runtime_class, row.partition_kind) == (
        pci_vendor,
        base,
        runtime_class,
        partition_kind,
    )
    assert TABLE.by_base[base] is row
    assert len(TABLE.by_key) == 9


@pytest.mark.parametrize(
    ("key", "slices", "overcommit"),
    [
        ("nvidia", 128, True),
        ("ascend", 63, True),
        ("cambricon", 16, False),
        ("hygon", 4, False),
        ("mthreads", 16, False),
        ("metax", 16, False),
        ("amd", 0, False),
        ("iluvatar", 0, False),
        ("thead", 0, False),
    ],
)
def test_slices_per_accelerator_and_whether_compute_overcommits(key: str, slices: int, overcommit: bool) -> None:
    assert (TABLE.by_key[key].slices, TABLE.by_key[key].cores_overcommit) == (slices, overcommit)


@pytest.mark.parametrize(
    ("key", "kind", "family"),
    [
        ("nvidia.com/gpu", KeyKind.WHOLE, Family.EXCLUSIVE),
        ("nvidia.com/gpu.shared", KeyKind.SHARED, Family.SHARED),
        ("nvidia.com/gpu.sliced", KeyKind.SLICED, Family.SLICED),
        ("nvidia.com/gpu.sliced.units", KeyKind.SLICED_UNITS, Family.SLICED),
        ("nvidia.com/gpu.sliced.cores-percentage", KeyKind.CORES_PERCENTAGE, Family.SLICED),
        ("nvidia.com/gpu.sliced.memory-percentage", KeyKind.MEMORY_PERCENTAGE, Family.SLICED),
        ("nvidia.com/gpu.sliced.memory-mib", KeyKind.MEMORY_MIB, Family.SLICED),
        ("nvidia.com/gpu.partitioned", KeyKind.PARTITIONED, Family.PARTITIONED),
        ("nvidia.com/gpu.partitioned.units", KeyKind.PARTITIONED_UNITS, Family.PARTITIONED),
        ("device.gpustack.ai/nvidia.visibility", KeyKind.VISIBILITY, None),
    ],
)
def test_a_key_says_what_it_counts(key: str, kind: KeyKind, family: Family | None) -> None:
    read = TABLE.read(key)
    assert read is not None
    assert (read.manufacturer, read.kind, read.profile, read.family) == (NVIDIA, kind, None, family)
    assert NVIDIA.key_for(kind) == key


def test_a_profile_key_names_its_profile() -> None:
    read = TABLE.read("nvidia.com/gpu.partitioned.mig-3g.40gb")
    assert read is not None
    assert (read.kind, read.profile, read.family) == (KeyKind.PROFILE, "3g.40gb", Family.PARTITIONED)
    assert NVIDIA.key_for(KeyKind.PROFILE, "3g.40gb") == "nvidia.com/gpu.partitioned.mig-3g.40gb"


@pytest.mark.parametrize(
    "key",
    [
        "cpu",
        "memory",
        "",
        "nvidia.com/gpux",
        "nvidia.com/gpu.slicedx",
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/gpu.partitioned.mig-",
        "nvidia.com/gpu.partitioned.3g.40gb",
        "amd.com/gpu.partitioned.mig-1g.10gb",
        "device.gpustack.ai/rdma",
        "device.gpustack.ai/rdma.mlx5_0",
        "device.gpustack.ai/unknown.visibility",
        "credits.gpustack.ai/nvidia",
    ],
)
def test_other_resources_are_no_accelerators(key: str) -> None:
    assert TABLE.read(key) is None


@given(
    row=st.sampled_from(sorted(TABLE.by_key)),
    kind=st.sampled_from([kind for kind in KeyKind if kind is not KeyKind.PROFILE]),
)
def test_every_key_is_read_back_as_it_was_spelt(row: str, kind: KeyKind) -> None:
    read = TABLE.read(TABLE.by_key[row].key_for(kind))
    assert read is not None
    assert (read.manufacturer.key, read.kind) == (row, kind)


def test_the_environment_overrides_a_column() -> None:
    table = manufacturers(
        {
            "GPUSTACK_NVIDIA_ACCELERATABLE_RESOURCE_NAME": "example.com/gpu",
            "GPUSTACK_NVIDIA_PARTITION_KIND": "part",
            "GPUSTACK_AMD_PCI_VENDOR_ID": "1022",
            "GPUSTACK_THEAD_ACCELERATABLE_RUNTIME_NAME": "ppu",
            "GPUSTACK_HYGON_PARTITION_KIND": "  ",
        }
    )
    read = table.read("example.com/gpu.partitioned.part-1g.10gb")
    assert read is not None
    assert (read.manufacturer.key, read.profile) == ("nvidia", "1g.10gb")
    assert table.read("nvidia.com/gpu") is None
    assert table.by_key["amd"].pci_vendor == "1022"
    assert table.by_key["thead"].runtime_class == "ppu"
    assert table.by_key["hygon"].partition_kind == "mig"


@pytest.mark.parametrize(
    ("manufacturer", "name", "published"),
    [
        (NVIDIA, "1g.10gb", "1g.10gb"),
        (NVIDIA, "1g.10gb.me", "1g.10gb.me"),
        (NVIDIA, "1g.10gb+me", None),
        (NVIDIA, "1g.10gb+gfx", None),
        (NVIDIA, "", None),
        (NVIDIA, "a b", None),
        (NVIDIA, "x" * 60, None),
        (THEAD, "4g48gb", "4g.48gb"),
        (THEAD, "4g.48gb", "4g.48gb"),
    ],
)
def test_profiles_are_published_as_a_resource_key_can_hold_them(
    manufacturer: object, name: str, published: str | None
) -> None:
    assert published_profile(manufacturer, name) == published  # type: ignore[arg-type]


def test_credits_and_accelerator_keys_lead_back_to_their_manufacturer() -> None:
    assert NVIDIA.credits == "credits.gpustack.ai/nvidia"
    assert TABLE.of_credits("credits.gpustack.ai/nvidia") is NVIDIA
    assert TABLE.of_credits("nvidia.com/gpu") is None
    assert TABLE.of_akey("nvidia-a10g") is NVIDIA
    assert TABLE.of_akey("unheard-of") is None


def test_kueue_is_told_a_price_for_cards_shares_and_units_and_for_nothing_else() -> None:
    prices = {entry["input"]: entry["outputs"] for entry in transformations(TABLE)}
    assert len(prices) == 4 * 9
    assert prices["nvidia.com/gpu"] == {"credits.gpustack.ai/nvidia": str(M)}
    assert prices["nvidia.com/gpu.shared"] == {"credits.gpustack.ai/nvidia": str(SHARE_UNITS)}
    assert prices["nvidia.com/gpu.sliced.units"] == {"credits.gpustack.ai/nvidia": "1"}
    assert prices["nvidia.com/gpu.partitioned.units"] == {"credits.gpustack.ai/nvidia": "1"}
    assert "nvidia.com/gpu.sliced" not in prices
    assert {entry["strategy"] for entry in transformations(TABLE)} == {"Replace"}


def test_a_family_shows_as_a_mode_of_the_card() -> None:
    assert [family.mode for family in Family] == [Mode.EXCLUSIVE, Mode.SHARED, Mode.SLICED, Mode.PARTITIONED]
