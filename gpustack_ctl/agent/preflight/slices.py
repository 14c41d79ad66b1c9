"""Whether a slice of each model would be enforced, by the same look at the host that an allocation takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.agent.inventory import DetectedCard, DetectedModel, Inventory
from gpustack_ctl.agent.preflight.finding import Finding, State
from gpustack_ctl.agent.responders import nvidia, responders
from gpustack_ctl.agent.responders.enforcer import Lack, SlicingResponder, way_past
from gpustack_ctl.agent.responders.host import Host
from gpustack_ctl.agent.responders.responder import Responder
from gpustack_ctl.agent.switches import Switches, isolation_switch


async def enforcement(
    found: Inventory, *, table: Manufacturers, switches: Switches, state_dir: Path, host: Host | None = None
) -> AsyncIterator[Finding]:
    """One finding per model whose cards host slices."""
    by_key = responders(table, switches=switches, state_dir=state_dir, host=host)
    for model in found.models:
        cards = [card for card in model.cards if card.slots and not card.profiles]
        if not cards or not table.by_key[model.manufacturer].slices:
            continue
        if model.manufacturer in switches.unenforced:
            reason = f"{isolation_switch(model.manufacturer)} is off: slices run without enforcement"
            yield _finding(model, State.NOT_DECLARED, reason)
        elif (lack := await _lack(by_key[model.manufacturer], model, cards, state_dir)) is not None:
            remedy = f"{lack.remedy}, {way_past(model.manufacturer)}"
            yield _finding(model, State.UNAVAILABLE, lack.what, remedy)
        else:
            yield _finding(model, State.OK, f"what holds slices of {model.product} to their budget is here")


async def _lack(responder: Responder, model: DetectedModel, cards: list[DetectedCard], state_dir: Path) -> Lack | None:
    """The first thing that a slice on any of the cards would be refused for."""
    if not isinstance(responder, SlicingResponder):
        return nvidia.lacks(model, state_dir=state_dir)
    for card in cards:
        lack = await responder.lacks(model, card)
        if lack is not None:
            return Lack(f"{card.id}: {lack.what}", lack.remedy)
    return None


def _finding(model: DetectedModel, state: State, reason: str, remedy: str = "") -> Finding:
    return Finding(f"slices of {model.akey}", state, reason, remedy)
