"""Whether a slice of each model would be enforced, by the same look at the host that an allocation takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.agent.inventory import DetectedModel, Inventory
from gpustack_ctl.agent.preflight.finding import Finding, State
from gpustack_ctl.agent.responders.nvidia import unenforceable
from gpustack_ctl.agent.switches import Switches, isolation_switch


def enforcement(found: Inventory, *, table: Manufacturers, switches: Switches, state_dir: Path) -> Iterator[Finding]:
    """One finding per model whose cards host slices."""
    for model in found.models:
        if table.by_key[model.manufacturer].slices and any(card.slots and not card.profiles for card in model.cards):
            yield _finding(model, switches, state_dir)


def _finding(model: DetectedModel, switches: Switches, state_dir: Path) -> Finding:
    check, switch = f"slices of {model.akey}", isolation_switch(model.manufacturer)
    if model.manufacturer in switches.unenforced:
        return Finding(check, State.NOT_DECLARED, f"{switch} is off: slices run without enforcement")
    if model.manufacturer != "nvidia":
        return Finding(check, State.UNAVAILABLE, f"slices of {model.manufacturer} are not enforced by this version")
    missing = unenforceable(model, state_dir=state_dir)
    if missing:
        reason, _, remedy = missing.partition("; ")
        return Finding(check, State.UNAVAILABLE, reason, remedy)
    return Finding(check, State.OK, f"HAMi-core is staged under {state_dir}")
