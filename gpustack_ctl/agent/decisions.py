"""What a call of the kubelet comes to: cards judged, partitions chosen, or a neighbour's cards looked at.

Everything is decided from the turn's own view of the node, and nothing is changed here. A decision that cannot be had
is an AllocationRefused with a message that a person can act on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpustack_ctl.accel.families import KeyKind
from gpustack_ctl.accel.placement import Choice, check, choices, choose
from gpustack_ctl.accel.records import Entry
from gpustack_ctl.accel.refusals import Refusal
from gpustack_ctl.accel.requests import ContainerDemand
from gpustack_ctl.agent.tokens import Token, read_token
from gpustack_ctl.agent.turns import AllocationRefused, Turn, Turns


@dataclass(frozen=True, slots=True)
class Decision:
    """The container's cards. `owner` is the container whose cards they are: itself, unless it only looks on.

    `demand` is None for a container that looks on; it is charged nothing.
    """

    owner: str
    entries: tuple[Entry, ...]
    demand: ContainerDemand | None

    @property
    def charged(self) -> tuple[Entry, ...]:
        return self.entries if self.demand else ()


def decide(
    turn: Turn, turns: Turns, device_ids: Sequence[str], *, promised: tuple[Entry, ...], slice_gate: bool
) -> Decision:
    """The decision of one call. `promised` is what an earlier, unheard answer to the same container named."""
    match turn.resource.kind:
        case KeyKind.VISIBILITY:
            return _look_on(turn, turns, len(device_ids))
        case KeyKind.PARTITIONED:
            return _partition(turn, turns, len(device_ids), promised)
        case _:
            return _judge(turn, turns, device_ids, slice_gate=slice_gate)


def _judge(turn: Turn, turns: Turns, device_ids: Sequence[str], *, slice_gate: bool) -> Decision:
    """The cards whose tokens the kubelet chose."""
    card_ids = [_token(turn, device_id).card for device_id in device_ids]
    state = turn.cards.get(card_ids[0])
    if state is None:
        raise _refused(turn, f"{card_ids[0]} is not an accelerator of this node")
    demand = turn.demand(turns.model(state.card.akey))
    refusal = check(demand, card_ids, turn.cards, slice_gate=slice_gate)
    if refusal is not None:
        raise _refused(turn, str(refusal))
    return _decision(turn, demand, choices(demand, card_ids, turn.cards))


def _partition(turn: Turn, turns: Turns, count: int, promised: tuple[Entry, ...]) -> Decision:
    """Places for the container's partitions, on whichever card leaves most to others; the same ones if asked again."""
    models = turns.models(turn)
    if not models:
        raise _refused(turn, "no partitioned accelerator that the Pod may use is on this node")
    if len(promised) == count:
        model = next((model for model in models if model.group == promised[0].group), models[0])
        return Decision(turn.claim.container, promised, turn.demand(model))
    hints = turns.hints(turn)
    refusals = []
    for model in models:
        demand = turn.demand(model)
        chosen = choose(demand, turn.cards, prefer=hints.prefer, avoid=hints.avoid, akey=model.akey)
        if not isinstance(chosen, Refusal):
            return _decision(turn, demand, chosen)
        refusals.append(str(chosen))
    raise _refused(turn, "; ".join(refusals))


def _look_on(turn: Turn, turns: Turns, count: int) -> Decision:
    """The cards of the one container in the Pod that holds as many; without proof of an owner nothing is shown."""
    record = turns.record(turn.claim.pod)
    manufacturer = turn.resource.manufacturer.key
    owners = {
        container: entries
        for container, held in record.items()
        if container != turn.claim.container
        and (entries := tuple(entry for entry in held if entry.manufacturer == manufacturer))
    }
    matching = [owner for owner, entries in owners.items() if len(entries) == count]
    if len(matching) != 1:
        held = ", ".join(f"{owner} holds {len(entries)}" for owner, entries in sorted(owners.items()))
        raise _refused(
            turn,
            f"asks to see {count} accelerators of another container of its Pod, and {held or 'nobody holds any'}; "
            "ask for as many as one container holds, and put that container before this one",
        )
    return Decision(matching[0], owners[matching[0]], None)


def _decision(turn: Turn, demand: ContainerDemand, chosen: Sequence[Choice]) -> Decision:
    ordered = sorted(chosen, key=lambda choice: (choice.card.index, choice.placement))
    return Decision(turn.claim.container, tuple(choice.entry() for choice in ordered), demand)


def _token(turn: Turn, device_id: str) -> Token:
    token = read_token(device_id)
    if token is None:
        raise _refused(turn, f"{device_id} is not a device of this plugin")
    return token


def _refused(turn: Turn, message: str) -> AllocationRefused:
    return AllocationRefused(f"{turn.claim}: {message}", pod=turn.claim.pod)
