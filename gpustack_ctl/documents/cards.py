"""Cards as a person describes them: the `cards` of an inventory and of a scenario's nodes.

An entry is a model, how many of it, and what differs from the model's defaults. What the model already says need not
be written: its manufacturer where its name begins with it, its MIG geometry where it is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpustack_ctl.accel.families import Manufacturer, Manufacturers, published_profile
from gpustack_ctl.accel.geometry import Placement, Profile
from gpustack_ctl.accel.mig_models import mig_profiles
from gpustack_ctl.accel.naming import group_id
from gpustack_ctl.documents.marked import Field

#: More cards than any machine has, and few enough that a typing error does not fill the memory.
MOST_CARDS = 64


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


def read_cards(field: Field, *, table: Manufacturers) -> tuple[CardsEntry, ...]:
    """Read a list of card entries, or one that stands alone; faults go to the field's document."""
    if field.absent:
        field.missing("write at least one entry with model, manufacturer, count and memoryMib")
    entries = [field] if field.is_mapping else field.items("write a list of cards")
    cards = tuple(_entry(entry, table) for entry in entries)
    if sum(card.count for card in cards) > MOST_CARDS:
        field.wrong(f"a node has at most {MOST_CARDS} cards; lower the counts")
    return cards


def _entry(field: Field, table: Manufacturers) -> CardsEntry:
    fields = field.fields(*_ENTRY_FIELDS)
    product = _product(fields["model"])
    manufacturer = _manufacturer(fields["manufacturer"], product, table)
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


def _manufacturer(field: Field, product: str, table: Manufacturers) -> Manufacturer:
    """As written, else the one that the model's name begins with: `NVIDIA A10G`, or the key `nvidia-a10g`."""
    named = product.lower().replace("-", " ").partition(" ")[0]
    key = named if field.absent and named in table.by_key else field.text()
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
