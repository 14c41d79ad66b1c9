"""The fold: what the Pod webhook writes into a Pod before Kueue looks at it.

Kueue multiplies and adds; it cannot divide a memory demand by a card's VRAM. So the webhook does, once, and leaves the
result as `.units` keys. It also pins a request for several shares to nodes that have that many cards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.field_errors import FieldError
from gpustack_ctl.accel.requests import Pool


@dataclass(frozen=True, slots=True)
class Fold:
    """The outcome: `spec` is None when nothing had to change; `errors` say what could not be computed, and stop the Pod."""

    spec: dict[str, Any] | None = None
    errors: tuple[FieldError, ...] = ()


def fold(pod_spec: Mapping[str, Any], *, table: Manufacturers, pool: Pool | None, queue: str, at: str = "spec") -> Fold:
    """The Pod spec with derived keys and the card-count pin written in. Leaves its argument alone; idempotent.

    `queue` is the Pod's queue-name, for the message when the pool behind it is not known; `at` is where the spec stands in
    its object (`spec.template.spec` for a Job).
    """
    raise NotImplementedError
