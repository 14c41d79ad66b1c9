"""The plan annotation: which cards the admission check set aside for each Pod, carried to the node by Kueue.

Packing each Pod as it comes can strand the last one: cards with 50 and 60 % free take slices of 50, 30 and 30 %, but
only if both 30s share the second card. The check has found an assignment; the plan tells the allocator which. It is a
hint and nothing more: Pods of one PodSet are interchangeable, so a Pod takes the first entry of its node that no
sibling has taken, and a plan that is missing, stale or forged is simply not followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpustack_ctl.accel.ledger import Record
from gpustack_ctl.accel.placement import Choice, Planned

PLANNED = "device.gpustack.ai/accelerator.planned"
"""The annotation that holds the plan: on the check's podSetUpdates, then on the Pods."""

PLAN_LIMIT = 64 * 1024
"""A plan longer than this many bytes is not written: an object's annotations share 256 KiB."""

PodPlan = Mapping[str, tuple[Planned, ...]]
"""One Pod's cards, by container name."""


def format_plan(pods: Mapping[str, Sequence[Iterable[Choice]]]) -> str | None:
    """The annotation for one PodSet from each node's Pods' choices; None when it would be too long."""
    raise NotImplementedError


def parse_plan(text: str, node: str) -> tuple[PodPlan, ...]:
    """The plan's entries for the node; none at all when the text is not a plan."""
    raise NotImplementedError


def next_entry(entries: Sequence[PodPlan], taken: Iterable[Record]) -> PodPlan | None:
    """The first entry that none of the siblings' records has taken."""
    raise NotImplementedError


def open_entries(entries: Sequence[PodPlan], taken: Iterable[Record]) -> tuple[PodPlan, ...]:
    """The entries that no sibling's record has taken."""
    raise NotImplementedError
