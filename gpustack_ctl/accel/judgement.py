"""Gate 1's whole answer about one Pod spec: fold it, then judge what it has become.

Whoever asks what gate 1 would say (the webhook, a linter, a simulator) asks here, so the answer is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.field_errors import FieldError
from gpustack_ctl.accel.folds import fold
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.rules import validate


@dataclass(frozen=True, slots=True)
class Judgement:
    """The folded spec, and every fault that was found in it; it may pass when there is none."""

    spec: Mapping[str, Any]
    errors: tuple[FieldError, ...] = ()


def judge(
    pod_spec: Mapping[str, Any], *, table: Manufacturers, pool: Pool | None, queue: str, at: str = "spec"
) -> Judgement:
    """Fold and judge a Pod spec that stands at the field path `at`, by the pool behind `queue`.

    Never raises: a spec of the wrong shape is a fault.
    """
    spec = fold(pod_spec, table=table, pool=pool, queue=queue, at=at).spec or pod_spec
    return Judgement(spec, tuple(validate(spec, table=table, pool=pool, queue=queue, at=at)))
