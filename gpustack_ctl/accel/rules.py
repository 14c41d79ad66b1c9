"""The rules a request must keep, each refusal saying what to write instead.

All faults of a Pod are reported together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.field_errors import FieldError
from gpustack_ctl.accel.requests import Pool


def validate(
    pod_spec: Mapping[str, Any], *, table: Manufacturers, pool: Pool | None, queue: str, at: str = "spec"
) -> list[FieldError]:
    """Every fault of a folded Pod spec, including what `fold` could not compute; empty when it may pass."""
    raise NotImplementedError
