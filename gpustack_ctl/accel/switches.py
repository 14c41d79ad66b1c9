"""Switches of the environment that manager and agent both obey, so that both understand them alike.

Were a finished Pod's cards free to the one and held to the other, gate 3 would say Ready to what gate 5 must refuse.
The environment is handed in, never read from the process: this package has no outside.
"""

from __future__ import annotations

from collections.abc import Mapping

RELEASE_TERMINATED = "GPUSTACK_LEDGER_RELEASE_TERMINATED_PODS"

_OFF = frozenset({"false", "off", "no", "0"})


def is_on(env: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Whether the variable turns its switch on; the default where it is unset or empty."""
    value = env.get(name, "").strip().lower()
    return value not in _OFF if value else default


def release_terminated(env: Mapping[str, str]) -> bool:
    """Whether a finished Pod holds its cards no longer, though its object is still there."""
    return is_on(env, RELEASE_TERMINATED, default=True)
