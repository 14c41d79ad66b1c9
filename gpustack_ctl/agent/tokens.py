"""Device ids: the tokens that the kubelet counts and hands out.

A token names its card, `<group>::<card>::<number>`, so that choosing tokens is choosing cards. Partition and visibility
tokens have the same form but are only a quantity: which card is found out later, so they carry no NUMA node either.

A card that another mode holds keeps its tokens and reports them unhealthy. Taking them away would strand the kubelet's
checkpoint of Pods that still run on them; and they come back the moment the card is free.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpustack_ctl.accel.cards import Card, CardState
from gpustack_ctl.accel.families import Family, KeyKind, Manufacturer, Mode
from gpustack_ctl.accel.units import SHARES, VISIBILITY_TOKENS

SEPARATOR = "::"


class Token(NamedTuple):
    """A device id taken apart."""

    group: str
    card: str
    number: int

    def __str__(self) -> str:
        return f"{self.group}{SEPARATOR}{self.card}{SEPARATOR}{self.number}"


@dataclass(frozen=True, slots=True)
class Offer:
    """One token as it is advertised."""

    id: str
    healthy: bool
    numa: int | None


def read_token(device_id: str) -> Token | None:
    """The token that `device_id` is; None for an id that is not ours."""
    group, card, number = [*device_id.split(SEPARATOR), "", ""][:3]
    if not (group and card and number.isdecimal()):
        return None
    return Token(group, card, int(number))


@dataclass(frozen=True, slots=True)
class PluginResource:
    """One resource name that a device plugin serves for one manufacturer."""

    manufacturer: Manufacturer
    kind: KeyKind

    @property
    def name(self) -> str:
        return self.manufacturer.key_for(self.kind)

    @property
    def family(self) -> Family | None:
        """The family whose cards the tokens stand for; None for visibility."""
        return self.kind.family

    @property
    def fungible(self) -> bool:
        """Whether the tokens are only a quantity, so that no choice among them means anything."""
        return self.kind in (KeyKind.PARTITIONED, KeyKind.VISIBILITY)

    def serves(self, card: Card) -> bool:
        """Whether the card is of the population that these tokens stand for."""
        if card.manufacturer != self.manufacturer.key:
            return False
        return self.family is None or card.serves(self.family)

    def offers(self, states: Iterable[CardState], *, held: Collection[str] = ()) -> list[Offer]:
        """Every token to advertise for these cards, in the cards' order. `held` are the ids that Pods have now."""
        mine = [state for state in states if self.serves(state.card)]
        if self.kind is KeyKind.PARTITIONED:
            return _instance_tokens(mine, held)
        return [offer for state in mine for offer in self._of_card(state)]

    def reads(self, states: Iterable[CardState], *, held: Collection[str] = ()) -> Hashable:
        """Something that differs exactly when the offers do, and is cheaper to make: there may be thousands of them."""
        if self.kind is KeyKind.PARTITIONED:
            return tuple(self.offers(states, held=held))
        mine = (state for state in states if self.serves(state.card))
        return tuple((state.card.id, self._tokens(state.card), self._healthy(state)) for state in mine)

    def _of_card(self, state: CardState) -> list[Offer]:
        card, healthy = state.card, self._healthy(state)
        numa = None if self.fungible else card.numa
        return [Offer(_id(card, number), healthy, numa) for number in range(self._tokens(card))]

    def _tokens(self, card: Card) -> int:
        match self.kind:
            case KeyKind.SHARED:
                return SHARES
            case KeyKind.SLICED:
                return card.slots
            case KeyKind.VISIBILITY:
                return VISIBILITY_TOKENS
        return 1

    def _healthy(self, state: CardState) -> bool:
        """Whether the card can serve at all and its mode lets this family in; a look is open in every mode."""
        return state.card.healthy and (self.family is None or state.mode in (Mode.NONE, self.family.mode))


#: The kinds of key that a device plugin advertises, each by a server of its own.
PLUGIN_KINDS = (KeyKind.WHOLE, KeyKind.SHARED, KeyKind.SLICED, KeyKind.PARTITIONED, KeyKind.VISIBILITY)


def _id(card: Card, number: int) -> str:
    return str(Token(card.group, card.id, number))


def _instance_tokens(states: Sequence[CardState], held: Collection[str]) -> list[Offer]:
    """As many tokens as the cards hold and can still hold instances, those in Pods' hands first.

    The number falls as instances take each other's room, and a token that a Pod has must not be the one that goes.
    """
    total = sum(_instances(state) for state in states)
    offers = [Offer(device_id, healthy=True, numa=None) for device_id in sorted(held)]
    for state in states:
        for number in range(_most_instances(state.card)):
            if len(offers) >= total:
                return offers
            if (device_id := _id(state.card, number)) not in held:
                offers.append(Offer(device_id, state.card.healthy, numa=None))
    return offers


def _instances(state: CardState) -> int:
    """Partitions the card holds and could still hold, over all profiles."""
    return sum(state.allocated_profiles().values()) + sum(state.remaining_profiles().values())


def _most_instances(card: Card) -> int:
    return sum(len(profile.placements) for profile in card.profiles)
