"""NVIDIA's MIG geometries, for inventories that ask for MIG without a card to ask (placeholder)."""

from __future__ import annotations

from collections.abc import Mapping

from gpustack_ctl.accel.geometry import Profile

MIG_MODELS: Mapping[str, tuple[Profile, ...]] = {}
"""Profiles by model group id, such as ``a100-sxm4-80gb``."""


def mig_profiles(group: str) -> tuple[Profile, ...]:
    """The MIG profiles of a card model by its group id; none for a model without MIG."""
    raise NotImplementedError
