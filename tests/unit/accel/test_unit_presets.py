"""Unit presets by product."""

import pytest

from gpustack_ctl.accel.unit_presets import (
    CPU_ONLY,
    LARGE,
    MEDIUM,
    SMALL,
    UNKNOWN_PRODUCT,
    XLARGE,
    UnitSpec,
    unit_preset,
)


@pytest.mark.parametrize(
    ("akey", "preset"),
    [
        (None, CPU_ONLY),
        ("nvidia-a10g", MEDIUM),
        ("nvidia-tesla-t4", SMALL),
        ("nvidia-t4", SMALL),
        ("nvidia-a100-sxm4-80gb", LARGE),
        ("nvidia-a100-sxm4-40gb", MEDIUM),
        ("nvidia-a100-pcie", MEDIUM),
        ("nvidia-h100-80gb-hbm3", XLARGE),
        ("nvidia-gh200-480gb", XLARGE),
        ("nvidia-geforce-rtx-4090", MEDIUM),
        ("nvidia-tesla-v100-sxm2-32gb", MEDIUM),
        ("nvidia-tesla-v100-sxm2-16gb", SMALL),
        ("nvidia-rtx-a6000", SMALL),
        ("nvidia-l40s", LARGE),
        ("nvidia-l40", MEDIUM),
        ("nvidia-rtx-pro-4500-blackwell", SMALL),
        ("nvidia-unheard-of", UNKNOWN_PRODUCT),
        ("ascend-ascend910b3", UNKNOWN_PRODUCT),
    ],
)
def test_the_family_with_the_most_tokens_decides(akey: str | None, preset: UnitSpec) -> None:
    assert unit_preset(akey) is preset


@pytest.mark.parametrize(
    ("preset", "cpu", "ram"),
    [
        (CPU_ONLY, "1", "2Gi"),
        (UNKNOWN_PRODUCT, "4", "16Gi"),
        (SMALL, "8", "32Gi"),
        (MEDIUM, "8", "64Gi"),
        (LARGE, "12", "128Gi"),
        (XLARGE, "12", "192Gi"),
    ],
)
def test_what_a_unit_carries(preset: UnitSpec, cpu: str, ram: str) -> None:
    assert (preset.cpu, preset.ram, preset.local_storage) == (cpu, ram, "100Gi")
