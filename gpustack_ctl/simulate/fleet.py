"""The nodes of the simulated fleet, and gate 3's answers about them.

A node's room depends on what is held on its cards and on nothing else, so nodes of one kind whose cards are held alike
share one `NodeState`. A state is immutable and remembers what was asked of it: `accel` decides once what a load does to
it, and the next node in that state has its answer. This is what lets a million requests pass in a minute without a
second implementation of any rule.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add, sub

from gpustack_ctl.accel.cards import Card, CardState, Holding, NodeCards, state_of
from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.feasibility import Demand, Miss, fit
from gpustack_ctl.accel.placement import Choice, accepts, choose
from gpustack_ctl.accel.refusals import Refusal
from gpustack_ctl.accel.units import INT64_MAX, M
from gpustack_ctl.simulate.reading_nodes import SOMEBODY
from gpustack_ctl.simulate.requests import COUNTED, Need
from gpustack_ctl.simulate.scenario import Held

Load = tuple[tuple[Need, int], ...]
"""Pods for one node: so many of each need."""

#: States remembered per kind of node; past it all are forgotten and asked anew.
MOST_STATES = 50_000


@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """A card in one state: what it adds to its node's `Sums`, and which needs it has room for."""

    state: CardState
    cores: int
    sums: tuple[int, ...]
    profiles: Mapping[str, int]
    accepted: dict[Need, bool] = field(default_factory=dict)

    def accepts(self, need: Need) -> bool:
        """Whether the card has room for a part of the need's largest claim, by accel's own word."""
        answer = self.accepted.get(need)
        if answer is None:
            card, claim = self.state.card, need.largest
            able = card.healthy and card.akey == need.akey and card.serves(claim.family)
            answer = self.accepted[need] = able and accepts(claim, self.state)
        return answer


@dataclass(frozen=True, slots=True)
class Answer:
    """A load that fits: what it takes and the cards' ids, in the order of its Pods, and the node's state afterwards."""

    taken: tuple[Held, ...]
    cards: tuple[str, ...]
    after: NodeState


class NodeState:
    """The cards of a node as they are held at one moment; `sums` are their figures by model."""

    __slots__ = ("_answers", "_cards", "_rows", "kind", "spots", "sums")

    def __init__(self, kind: Kind, spots: tuple[Spot, ...], sums: Mapping[str, tuple[int, ...]]) -> None:
        self.kind = kind
        self.spots = spots
        self.sums = sums
        self._cards: NodeCards | None = None
        self._answers: dict[Load, Answer | None] = {}
        self._rows: dict[Hashable, tuple[int, ...]] = {}

    @property
    def cards(self) -> NodeCards:
        """The cards as accel knows them."""
        if self._cards is None:
            self._cards = NodeCards("", tuple(spot.state for spot in self.spots), self.kind.counts)
        return self._cards

    def counts(
        self, key: Hashable, asked: Sequence[tuple[Need, object]], were: Sequence[int], before: NodeState
    ) -> tuple[int, ...]:
        """The counts of the needs that are asked for under this key; ``were`` they ``before``, and most are still."""
        row = self._rows.get(key)
        if row is None or len(row) < len(asked):
            maker = asked[0][0].manufacturer
            changed = _changed(before.free(maker), self.free(maker))
            counts = [
                self.count(need) if need.counted & changed else old for (need, _), old in zip(asked, were, strict=True)
            ]
            row = self._rows[key] = tuple(counts)
        return row

    def count(self, need: Need, beside: Load = ()) -> int:
        """How many such Pods the scheduler counts free: by the node's keys, which know nothing of single cards.

        The Pods of the load ``beside`` are counted as if they were there.
        """
        if need.cards and self.kind.counts.get(need.akey, 0) < need.cards:
            return 0
        free = self.free(need.manufacturer)
        if beside:
            free = tuple(map(sub, free, _used(beside, need.manufacturer)))
        count = INT64_MAX
        for position, amount in need.amounts:
            room = free[position] // amount
            if room < count:
                if room <= 0:
                    return 0
                count = room
        for profile, amount in need.profiles:
            places = sum([spot.profiles.get(profile, 0) for spot in self.spots])
            taken = sum(pods for other, pods in beside if (profile, amount) in other.profiles)
            count = min(count, places // amount - taken)
        return max(count, 0)

    def free(self, manufacturer: str) -> tuple[int, ...]:
        """The manufacturer's sums, whose counting keys do not tell its models apart."""
        akeys = self.kind.models[manufacturer]
        if len(akeys) == 1:
            return self.sums[akeys[0]]
        return tuple(map(sum, zip(*(self.sums[akey] for akey in akeys), strict=True)))

    def answer(self, load: Load) -> Answer | None:
        """What the load does to the node, or None where gate 3 would hold it."""
        answer = self._answers.get(load)
        if answer is None and load not in self._answers:
            answer = self._answers[load] = self._judge(load)
        return answer

    def miss(self, load: Load, roles: Sequence[str], node: str) -> str:
        """Gate 3's message for a load that does not fit, with the node's name."""
        cards = NodeCards(node, self.cards.states, self.kind.counts)
        verdict = fit(_demands(load, roles, node), {node: cards})
        return verdict.message if isinstance(verdict, Miss) else ""

    def _judge(self, load: Load) -> Answer | None:
        if not all(self._could(need) for need, _ in load):
            return None
        need, pods = load[0]
        claims = need.demand.containers
        if pods == 1 and len(load) == 1 and len(claims) == 1:
            # A claim alone is placed where the allocator's packing puts it, and nowhere if not there.
            chosen = choose(claims[0], self.cards, akey=need.akey)
            return None if isinstance(chosen, Refusal) else self._taken((need, choice) for choice in chosen)
        verdict = fit(_demands(load, [str(at) for at in range(len(load))], ""), {"": self.cards})
        if isinstance(verdict, Miss):
            return None
        return self._taken((load[int(pod.role)][0], choice) for pod in verdict.pods for choice in pod.choices)

    def _taken(self, chosen: Iterable[tuple[Need, Choice]]) -> Answer:
        taken = tuple([_held(self.kind.positions[choice.card.id], need, choice) for need, choice in chosen])
        ids = tuple([self.kind.cards[held.position].id for held in taken])
        return Answer(taken, ids, self.kind.with_held(self, taken))

    def _could(self, need: Need) -> bool:
        """Whether enough cards accept the largest claim by itself: no, and nothing more need be asked."""
        wanted = need.distinct_cards
        for spot in self.spots:
            if spot.accepts(need):
                wanted -= 1
                if not wanted:
                    return True
        return False


class Kind:
    """Nodes with the same cards, and the states that they have been seen in."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self.positions = {card.id: at for at, card in enumerate(cards)}
        self.counts: dict[str, int] = {}
        self.models: dict[str, list[str]] = {}
        for card in cards:
            self.counts[card.akey] = self.counts.get(card.akey, 0) + 1
            if self.counts[card.akey] == 1:
                self.models.setdefault(card.manufacturer, []).append(card.akey)
        self.cards = tuple(cards)
        self._spots: dict[tuple[int, bool, tuple[Holding, ...], int], Spot] = {}
        self._states: dict[tuple[Spot, ...], NodeState] = {}

    def state(self, held: Sequence[Held] = ()) -> NodeState:
        """The state of a node that holds so much."""
        empty = self._state(tuple(self._spot(at, True, (), 0) for at in range(len(self.cards))), None)
        return self.with_held(empty, held)

    def with_held(self, state: NodeState, held: Sequence[Held]) -> NodeState:
        """The state once more is held."""
        spots = list(state.spots)
        for each in held:
            before = spots[each.position]
            holdings = tuple(sorted((*before.state.holdings, each.holding)))
            spots[each.position] = self._spot(
                each.position, before.state.card.healthy, holdings, before.cores + each.cores
            )
        return self._state(tuple(spots), state)

    def without(self, state: NodeState, held: Sequence[Held]) -> NodeState:
        """The state once that much is given back."""
        spots = list(state.spots)
        for each in held:
            before = spots[each.position]
            holdings = list(before.state.holdings)
            holdings.remove(each.holding)
            spots[each.position] = self._spot(
                each.position, before.state.card.healthy, tuple(holdings), before.cores - each.cores
            )
        return self._state(tuple(spots), state)

    def with_health(self, state: NodeState, index: int, *, healthy: bool) -> NodeState:
        """The state once the card of that index has failed, or is well again."""
        spots = list(state.spots)
        at = next(at for at, card in enumerate(self.cards) if card.index == index)
        before = spots[at]
        spots[at] = self._spot(at, healthy, before.state.holdings, before.cores)
        return self._state(tuple(spots), state)

    def _spot(self, at: int, healthy: bool, holdings: tuple[Holding, ...], cores: int) -> Spot:
        key = (at, healthy, holdings, cores)
        spot = self._spots.get(key)
        if spot is None:
            card = self.cards[at] if healthy else replace(self.cards[at], healthy=False)
            state = state_of(card, holdings)
            profiles = state.remaining_profiles() if card.partitioned else {}
            spot = self._spots[key] = Spot(state, cores, _figures(state, cores), profiles)
        return spot

    def _state(self, spots: tuple[Spot, ...], before: NodeState | None) -> NodeState:
        state = self._states.get(spots)
        if state is None:
            if len(self._states) >= MOST_STATES:
                self._states.clear()
            sums = _sums(spots) if before is None else _changed_sums(before, spots)
            state = self._states[spots] = NodeState(self, spots, sums)
        return state


#: Units held, and free on healthy cards: what is summed up over a node's cards behind its counting keys.
HELD, FREE = len(COUNTED), len(COUNTED) + 1


def _figures(state: CardState, cores: int) -> tuple[int, ...]:
    """What is left of the card's part in each counting key, and its units.

    Tokens are lost with the card's health and to another mode, since the device plugin then reports them unhealthy;
    units and percentages are not, since they are written from what the cards are, not from how they are held.
    """
    card = state.card
    whole = shares = slots = units = percentage = tokens = partition_units = 0
    if card.partitioned:
        tokens = sum(state.remaining_profiles().values()) if card.healthy else 0
        partition_units = M - state.charged
    elif card.sliceable:
        units = M - state.charged if state.mode is Mode.SLICED else M
        percentage = (card.slots if card.cores_overcommit else 1) * 100 - cores
    if card.whole_capable and card.healthy:
        whole, shares = int(state.free), state.shares_free
        slots = state.slots_free if card.sliceable and state.mode in (Mode.NONE, Mode.SLICED) else 0
    free = state.remaining if card.healthy else 0
    return whole, shares, slots, units, percentage, tokens, partition_units, state.allocated, free


def _sums(spots: Sequence[Spot]) -> dict[str, tuple[int, ...]]:
    sums: dict[str, tuple[int, ...]] = {}
    for spot in spots:
        akey = spot.state.card.akey
        sums[akey] = tuple(map(add, sums[akey], spot.sums)) if akey in sums else spot.sums
    return sums


def _changed_sums(before: NodeState, spots: Sequence[Spot]) -> Mapping[str, tuple[int, ...]]:
    """The sums once some cards have changed: only those are added anew."""
    sums = dict(before.sums)
    for old, new in zip(before.spots, spots, strict=True):
        if old is not new:
            akey = new.state.card.akey
            sums[akey] = tuple(map(add, map(sub, sums[akey], old.sums), new.sums))
    return sums


def _changed(before: Sequence[int], after: Sequence[int]) -> int:
    """The places in which sums differ, as bits."""
    bits, bit = 0, 1
    for old, new in zip(before, after, strict=True):
        if old != new:
            bits |= bit
        bit <<= 1
    return bits


def _used(load: Load, manufacturer: str) -> tuple[int, ...]:
    """What a load takes of a manufacturer's sums."""
    used = [0] * (FREE + 1)
    for need, pods in load:
        if need.manufacturer == manufacturer:
            for position, amount in need.amounts:
                used[position] += amount * pods
    return tuple(used)


def _held(position: int, need: Need, choice: Choice) -> Held:
    """What was chosen as a holding of nobody in particular, so that states that only differ in names are the same."""
    cores = need.cores(choice.container) if choice.mode is Mode.SLICED else 0
    placements = (choice.placement,) if choice.placement else ()
    return Held(position, Holding(SOMEBODY, "", choice.mode, choice.units, choice.profile, placements), cores)


def _demands(load: Load, roles: Sequence[str], node: str) -> list[Demand]:
    return [
        Demand(role=role, pod=need.demand, pods=pods, akey=need.akey, node=node)
        for (need, pods), role in zip(load, roles, strict=True)
    ]
