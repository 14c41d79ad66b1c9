"""The nodes of a scenario: cards in an inventory's words, and what is held on them when time begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpustack_ctl.accel.cards import Card, CardState, Holding, PodKey, canonical, state_of
from gpustack_ctl.accel.families import Family, Manufacturers
from gpustack_ctl.accel.mig_models import mig_profiles
from gpustack_ctl.accel.naming import group_id
from gpustack_ctl.accel.placement import accepts
from gpustack_ctl.accel.requests import ContainerDemand
from gpustack_ctl.accel.units import SHARE_UNITS, SHARES, M, mib_units
from gpustack_ctl.documents.cards import CardsEntry, read_cards
from gpustack_ctl.documents.marked import Field
from gpustack_ctl.simulate.scenario import Held, NodesEntry

MOST_NODES = 200_000

#: Who holds what is held does not matter to anybody who asks for more.
SOMEBODY = PodKey("", "somebody", "")


def read_nodes(field: Field, *, table: Manufacturers) -> tuple[NodesEntry, ...]:
    """Read the fleet; faults go to the field's document."""
    if field.absent:
        field.missing("write at least one node with name and cards")
    names: set[str] = set()
    return tuple(_entry(item, names, table) for item in field.items("write a list of nodes"))


def _entry(field: Field, names: set[str], table: Manufacturers) -> NodesEntry:
    fields = field.fields("name", "count", "cards", "holdings")
    entries = read_cards(fields["cards"], table=table)
    cards = _cut(_cards(entries, table), fields["holdings"])
    own = _names(fields["name"], fields["count"])
    if taken := next((name for name in own if name in names), None):
        fields["name"].wrong(f"node {taken} is there already; choose another name")
    names |= set(own)
    return NodesEntry(own, cards, _holdings(fields["holdings"], cards))


def _names(name: Field, count: Field) -> tuple[str, ...]:
    if not name.text():
        name.missing("write the node's name")
    if count.absent:
        return (name.text(),)
    return tuple(f"{name.text()}-{number}" for number in range(count.integer(1, least=1, most=MOST_NODES)))


def _cards(entries: Sequence[CardsEntry], table: Manufacturers) -> tuple[Card, ...]:
    """The cards in canonical order, each by its index on the node."""
    cards: list[Card] = []
    for entry in entries:
        group = group_id(entry.product, entry.manufacturer)
        known = table.by_key.get(entry.manufacturer)
        for at in range(entry.count):
            index = len(cards)
            cards.append(
                Card(
                    id=f"gpu-{index}",
                    index=index,
                    group=group,
                    manufacturer=entry.manufacturer,
                    memory_mib=entry.memory_mib,
                    numa=entry.numa[at],
                    slots=0 if entry.profiles else entry.slots,
                    cores_overcommit=known is not None and known.cores_overcommit,
                    partition_count=max((profile.count for profile in entry.profiles), default=0),
                    profiles=entry.profiles,
                )
            )
    return canonical(cards)


def _cut(cards: Sequence[Card], holdings: Field) -> tuple[Card, ...]:
    """The cards, those partitioned that hold a partition: the mode is each card's own, whatever its entry says."""
    held = {
        fields["card"].text()
        for item in holdings.items("write a list of holdings")
        if item.is_mapping
        and (fields := dict(item.entries(""))).keys() >= {"card", "family"}
        and fields["family"].text() == Family.PARTITIONED
    }
    return tuple(_partitioned(card) if str(card.index) in held and not card.partitioned else card for card in cards)


def _partitioned(card: Card) -> Card:
    """The card in MIG mode, where its model's geometry is known; as it is, where it is not."""
    profiles = mig_profiles(card.group)
    if not profiles:
        return card
    return replace(card, slots=0, profiles=profiles, partition_count=max(profile.count for profile in profiles))


def _holdings(field: Field, cards: Sequence[Card]) -> tuple[Held, ...]:
    """What is held, each checked against the card as the ones before have left it."""
    states = [state_of(card) for card in cards]
    by_index = {card.index: at for at, card in enumerate(cards)}
    found: list[Held] = []
    for item in field.items("write a list of holdings"):
        fields = item.fields("card", "family", "units", "shares", "profile", "start", "coresPercentage")
        if fields["card"].absent:
            fields["card"].missing("write the index of the card, from 0")
        at = by_index.get(fields["card"].integer(0, least=0, most=max(len(cards) - 1, 0)))
        family = _family(fields["family"])
        if at is None or family is None:
            continue
        for held in _held(family, fields, states[at]):
            demand = ContainerDemand("", "running", family, cards[at].manufacturer, 1, held.units, held.profile or None)
            if not (cards[at].serves(family) and accepts(demand, states[at])):
                item.wrong(f"has no room on its card, which is {states[at].describe()}; ask for less, or another card")
                break
            states[at] = states[at].with_holding(held)
            cores = fields["coresPercentage"].integer(100, least=1, most=100) if family is Family.SLICED else 0
            found.append(Held(at, held, cores))
    return tuple(found)


def _family(field: Field) -> Family | None:
    if field.text() in list(Family):
        return Family(field.text())
    if field.absent:
        field.missing(f"write one of {', '.join(Family)}")
    else:
        field.wrong(f"write one of {', '.join(Family)}")
    return None


def _held(family: Family, fields: Mapping[str, Field], state: CardState) -> list[Holding]:
    _refuse_foreign(family, fields)
    match family:
        case Family.EXCLUSIVE:
            return [Holding(SOMEBODY, "", family.mode, M)]
        case Family.SHARED:
            shares = fields["shares"].integer(1, least=1, most=SHARES)
            return [Holding(SOMEBODY, "", family.mode, SHARE_UNITS)] * shares
        case Family.SLICED:
            if fields["units"].absent:
                fields["units"].missing(f"write the units of the slice, 1 to {M}")
            return [Holding(SOMEBODY, "", family.mode, fields["units"].integer(1, least=1, most=M))]
        case Family.PARTITIONED:
            return _partition(fields, state)


def _partition(fields: Mapping[str, Field], state: CardState) -> list[Holding]:
    name, start = fields["profile"], fields["start"]
    profile = state.card.profile(name.text())
    if profile is None:
        offered = ", ".join(each.name for each in state.card.profiles)
        name.wrong(
            f"the card offers {offered}" if offered else "the card has no partitions; list its profiles under cards"
        )
        return []
    free = {place.start: place for place in state.free_placements(profile.name)}
    place = free.get(start.integer(min(free, default=0), least=0, most=63))
    if place is None:
        starts = ", ".join(map(str, sorted(free))) or "nowhere any more"
        start.wrong(f"{profile.name} may start at {starts} on this card")
        return []
    units = min(mib_units(profile.memory_mib, vram_mib=state.card.memory_mib), M)
    return [Holding(SOMEBODY, "", Family.PARTITIONED.mode, units, profile.name, (place,))]


_OWN = {
    Family.EXCLUSIVE: (),
    Family.SHARED: ("shares",),
    Family.SLICED: ("units", "coresPercentage"),
    Family.PARTITIONED: ("profile", "start"),
}


def _refuse_foreign(family: Family, fields: Mapping[str, Field]) -> None:
    for name in ("units", "shares", "profile", "start", "coresPercentage"):
        if not fields[name].absent and name not in _OWN[family]:
            fields[name].wrong(f"does not belong to a holding of family {family}; leave it out")
