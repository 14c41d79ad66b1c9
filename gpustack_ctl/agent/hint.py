"""GetPreferredAllocation: which of the free tokens the kubelet should hand out.

A hint costs nothing when it is ignored, so whatever cannot be decided gets none, and Allocate judges what the kubelet
then picks. It reads the promises of this very moment, not the ledger last published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpustack_ctl.accel.placement import Choice, choose
from gpustack_ctl.accel.refusals import Refusal
from gpustack_ctl.agent.node_lock import NodeLock
from gpustack_ctl.agent.tokens import SEPARATOR, PluginResource, read_token
from gpustack_ctl.agent.turns import AllocationRefused, Turn, Turns


class Hinter:
    """Answers the kubelet's question; `lock` is the node's, so that no allocation changes the cards meanwhile."""

    def __init__(self, turns: Turns, *, lock: NodeLock) -> None:
        self._turns = turns
        self._lock = lock

    async def prefer(
        self, resource: PluginResource, *, available: Iterable[str], must_include: Sequence[str], size: int
    ) -> list[str]:
        """Up to `size` of the available tokens, `must_include` among them; none where there is nothing to say."""
        offered = _by_card(available)
        async with self._lock.held():
            try:
                turn = await self._turns.take(
                    resource, count=size, could=lambda turn: self._choose(turn, offered) is not None
                )
                chosen = self._choose(turn, offered)
            except AllocationRefused:
                return []
        return _tokens(chosen, offered, must_include, size) if chosen else []

    def _choose(self, turn: Turn, offered: Mapping[str, object]) -> tuple[Choice, ...] | None:
        """The cards in packing order, all of one model."""
        hints = self._turns.hints(turn)
        for model in self._turns.models(turn):
            chosen = choose(
                turn.demand(model),
                turn.cards,
                prefer=hints.prefer,
                avoid=hints.avoid,
                offered=offered.keys(),
                akey=model.akey,
            )
            if not isinstance(chosen, Refusal):
                return chosen
        return None


def _by_card(available: Iterable[str]) -> dict[str, str]:
    """One token of each card on offer. There may be thousands, and all but the number is the card's: read one each."""
    first: dict[str, str] = {}
    for device_id in available:
        first.setdefault(device_id.rpartition(SEPARATOR)[0], device_id)
    return {token.card: device_id for device_id in first.values() if (token := read_token(device_id))}


def _tokens(chosen: Iterable[Choice], offered: Mapping[str, str], must_include: Sequence[str], size: int) -> list[str]:
    """One token of each chosen card; a card that is in already, because it must be, is not taken twice."""
    tokens = list(must_include)
    taken = {token.card for device_id in must_include if (token := read_token(device_id))}
    for choice in chosen:
        if len(tokens) == size:
            break
        if choice.card.id not in taken:
            tokens.append(offered[choice.card.id])
    return tokens
