"""The inventory file of the simulated detector: cards that are not there, and failures to inject.

Read strictly, because the reader is a person at a keyboard: an unknown field is a typing error, and every fault of the
file is reported in one go with its line and with what to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpustack_ctl.accel.families import Manufacturer, Manufacturers, published_profile
from gpustack_ctl.accel.geometry import Placement, Profile
from gpustack_ctl.accel.mig_models import mig_profiles
from gpustack_ctl.accel.naming import group_id
from gpustack_ctl.agent.detectors.marked import Document, DocumentError, Field

#: More cards than any machine has, and few enough that a typing error does not fill the memory.
MOST_CARDS = 64

#: The driver calls that an inventory may let fail.
CALLS = ("create-gpu-instance", "create-compute-instance", "destroy-gpu-instance")


@dataclass(frozen=True, slots=True)
class CardsEntry:
    """`count` equal cards. `profiles` is empty unless they are partitioned; `slots` is what one of them may host."""

    product: str
    manufacturer: str
    count: int
    memory_mib: int
    slots: int
    cores: int = 0
    driver_version: str = ""
    runtime_version: str = ""
    compute_capability: str = ""
    family: str = ""
    numa: tuple[int | None, ...] = ()
    profiles: tuple[Profile, ...] = ()


@dataclass(frozen=True, slots=True)
class CardFailure:
    """A card that turns unhealthy `at` seconds after the start, for a while or for good."""

    card: int
    at: float
    seconds: float | None


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A driver call that fails the next `times` times."""

    call: str
    error: str
    times: int


@dataclass(frozen=True, slots=True)
class InventoryFile:
    """The whole file, understood."""

    cards: tuple[CardsEntry, ...]
    card_failures: tuple[CardFailure, ...] = ()
    call_failures: tuple[CallFailure, ...] = ()


def load_inventory(path: Path, *, table: Manufacturers) -> InventoryFile:
    """Read the file at `path`. Raises DocumentError, and OSError as the system says it."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError([f"{path}:1: not UTF-8 text: {error.reason}"]) from error
    return read_inventory(text, source=str(path), table=table)


def read_inventory(text: str, *, source: str, table: Manufacturers) -> InventoryFile:
    """Read an inventory from text. Raises DocumentError with every fault."""
    document = Document(text, source=source)
    root = document.root.fields("cards", "failures")
    cards = read_cards(root["cards"], table=table)
    total = sum(entry.count for entry in cards)
    failures = root["failures"].items("write a list of failures")
    card_failures, call_failures = [], []
    for failure in failures:
        fields = failure.fields("at", "card", "unhealthy", "for", "call", "error", "times")
        if fields["call"].absent:
            card_failures.append(_card_failure(fields, total))
        else:
            call_failures.append(_call_failure(fields))
    document.check()
    return InventoryFile(cards, tuple(card_failures), tuple(call_failures))


def read_cards(field: Field, *, table: Manufacturers) -> tuple[CardsEntry, ...]:
    """Read a list of card entries; faults go to the field's document."""
    if field.absent:
        field.missing("write at least one entry with model, manufacturer, count and memoryMib")
    entries = field.items("write a list of cards")
    cards = tuple(_entry(entry, table) for entry in entries)
    if sum(card.count for card in cards) > MOST_CARDS:
        field.wrong(f"a node has at most {MOST_CARDS} cards; lower the counts")
    return cards


def _entry(field: Field, table: Manufacturers) -> CardsEntry:
    fields = field.fields(*_ENTRY_FIELDS)
    product = _product(fields["model"])
    manufacturer = _manufacturer(fields["manufacturer"], table)
    count = fields["count"].integer(1, least=1, most=MOST_CARDS)
    memory = fields["memoryMib"]
    if memory.absent:
        memory.missing("write the memory of one card in MiB, e.g. 24576")
    return CardsEntry(
        product=product,
        manufacturer=manufacturer.key,
        count=count,
        memory_mib=memory.integer(1, least=1),
        slots=fields["slots"].integer(manufacturer.slices, least=0, most=512),
        cores=fields["cores"].integer(0, least=0),
        driver_version=fields["driverVersion"].text(),
        runtime_version=fields["runtimeVersion"].text(),
        compute_capability=fields["computeCapability"].text(),
        family=fields["family"].text(),
        numa=_numa(fields["numa"], count),
        profiles=_profiles(fields["mig"], fields["profiles"], product, manufacturer),
    )


_ENTRY_FIELDS = (
    "model",
    "manufacturer",
    "count",
    "memoryMib",
    "slots",
    "cores",
    "driverVersion",
    "runtimeVersion",
    "computeCapability",
    "family",
    "numa",
    "mig",
    "profiles",
)


def _product(field: Field) -> str:
    product = field.text()
    if not product:
        field.missing("write the product name, e.g. NVIDIA A10G")
    return product


def _manufacturer(field: Field, table: Manufacturers) -> Manufacturer:
    key = field.text()
    known = table.by_key.get(key)
    if known is not None:
        return known
    names = ", ".join(table.by_key)
    if key:
        field.wrong(f"write one of {names}")
    else:
        field.missing(f"write one of {names}")
    return Manufacturer(key=key, pci_vendor="", base="")


def _numa(field: Field, count: int) -> tuple[int | None, ...]:
    nodes = field.items("write one NUMA node per card, e.g. [0, 0, 1, 1]")
    if not nodes:
        return (None,) * count
    if len(nodes) != count:
        field.wrong(f"has {len(nodes)} NUMA nodes for {count} cards; write one per card")
        return (None,) * count
    return tuple(node.integer(0, least=0, most=1023) for node in nodes)


def _profiles(mig: Field, written: Field, product: str, manufacturer: Manufacturer) -> tuple[Profile, ...]:
    if not written.absent:
        if mig.flag(default=True) is False:
            mig.wrong("profiles are for partitioned cards; write true, or drop the profiles")
        return tuple(_profile(field, manufacturer) for field in written.items("write a list of profiles"))
    if not mig.flag():
        return ()
    known = mig_profiles(group_id(product, manufacturer.key))
    if not known:
        mig.wrong(f"the geometry of {product} is not known here; list its profiles under profiles")
    return known


def _profile(field: Field, manufacturer: Manufacturer) -> Profile:
    fields = field.fields("name", "memoryMib", "computeSlices", "memorySlices", "count", "placements")
    places = [
        place.fields("start", "length")
        for place in fields["placements"].items("write a list of intervals, e.g. [{start: 0, length: 1}]")
    ]
    if not places:
        fields["placements"].missing("write where an instance may lie, e.g. [{start: 0, length: 1}]")
    placements = tuple(
        Placement(place["start"].integer(0, least=0, most=63), place["length"].integer(1, least=1, most=64))
        for place in places
    )
    return Profile(
        name=_profile_name(fields["name"], manufacturer),
        memory_mib=fields["memoryMib"].integer(1, least=1),
        compute_slices=fields["computeSlices"].integer(1, least=0, most=64),
        memory_slices=fields["memorySlices"].integer(max((p.length for p in placements), default=1), least=1, most=64),
        count=fields["count"].integer(max(len(placements), 1), least=1, most=64),
        placements=placements,
    )


def _profile_name(field: Field, manufacturer: Manufacturer) -> str:
    name = field.text()
    if not name:
        field.missing("write the profile's name, e.g. 1g.10gb")
        return name
    published = published_profile(manufacturer, name)
    if published is None:
        field.wrong("cannot be part of a resource key; leave this profile out")
    return published or name


def _card_failure(fields: Mapping[str, Field], total: int) -> CardFailure:
    card = fields["card"]
    if card.absent:
        card.missing("write the index of a card, or call for a failing driver call")
    if not fields["unhealthy"].flag(default=True):
        fields["unhealthy"].wrong("write true; a card recovers by itself after its for seconds")
    for name in ("error", "times"):
        if not fields[name].absent:
            fields[name].wrong("belongs to a failing call; add call, or drop it")
    return CardFailure(
        card=card.integer(0, least=0, most=max(total - 1, 0)),
        at=fields["at"].seconds(0.0) or 0.0,
        seconds=fields["for"].seconds(None),
    )


def _call_failure(fields: Mapping[str, Field]) -> CallFailure:
    call = fields["call"].text()
    if call not in CALLS:
        fields["call"].wrong(f"write one of {', '.join(CALLS)}")
    for name in ("at", "card", "unhealthy", "for"):
        if not fields[name].absent:
            fields[name].wrong("belongs to a failing card; drop call, or drop it")
    return CallFailure(call=call, error=fields["error"].text("failed"), times=fields["times"].integer(1, least=1))
