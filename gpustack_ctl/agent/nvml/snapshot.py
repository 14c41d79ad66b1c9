"""What NVML answered in one pass, as values: between the library and the inventory, and on disk as a recording.

A recording lets somebody else's machine be looked at: it holds what the driver said, before anything is derived from
it, so replaying it walks the same path as asking the driver. It is JSON, and read as strictly as what people write,
because people will edit recordings too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.documents.marked import Document, DocumentError, Field

KIND = "nvml-snapshot"
VERSION = 1


@dataclass(frozen=True, slots=True)
class ProfileReading:
    """A GPU-instance profile that the driver offers on a card; `count` is how many an empty card holds."""

    name: str
    memory_mib: int
    compute_slices: int
    count: int
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class CardReading:
    """One card. `trouble` says why it cannot be used, and is empty for a healthy one.

    Under MIG it has `profiles`, and `foreign` has the intervals of instances that were not made for a Pod.
    """

    index: int
    uuid: str
    name: str
    memory_bytes: int
    cores: int = 0
    pci_bus_id: str = ""
    pci_root_id: str = ""
    pci_class: str = ""
    numa: int | None = None
    cpus: str = ""
    compute_capability: str = ""
    family: str = ""
    mig: bool = False
    profiles: tuple[ProfileReading, ...] = ()
    foreign: tuple[Placement, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one pass read."""

    driver_version: str = ""
    cuda_version: str = ""
    cards: tuple[CardReading, ...] = ()

    def card(self, index: int) -> CardReading | None:
        """The card at the driver's index."""
        return next((card for card in self.cards if card.index == index), None)


def format_snapshot(snapshot: Snapshot) -> bytes:
    """The recording of a snapshot."""
    document = {
        "kind": KIND,
        "version": VERSION,
        "driverVersion": snapshot.driver_version,
        "cudaVersion": snapshot.cuda_version,
        "cards": [_card_document(card) for card in snapshot.cards],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def load_snapshot(path: Path) -> Snapshot:
    """Read the recording at `path`. Raises DocumentError with every fault, and OSError as the system says it."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError([f"{path}:1: not UTF-8 text: {error.reason}"]) from error
    return read_snapshot(text, source=str(path))


def read_snapshot(text: str, *, source: str) -> Snapshot:
    """Read a recording from text. Raises DocumentError with every fault."""
    document = Document(text, source=source)
    root = document.root.fields("kind", "version", "driverVersion", "cudaVersion", "cards")
    if root["kind"].text() != KIND:
        root["kind"].wrong(f"write {KIND}; `gpustack-ctl node-agent detect --record FILE` makes such a file")
    if root["version"].integer(0, least=0) != VERSION:
        root["version"].wrong(f"this version reads {VERSION} only; record the machine again")
    cards = tuple(_card(field) for field in root["cards"].items("write a list of cards"))
    _distinct(cards, root["cards"])
    document.check()
    return Snapshot(root["driverVersion"].text(), root["cudaVersion"].text(), cards)


def _card_document(card: CardReading) -> dict[str, Any]:
    document: dict[str, Any] = {
        "index": card.index,
        "uuid": card.uuid,
        "name": card.name,
        "memoryBytes": card.memory_bytes,
        "cores": card.cores,
        "pciBusId": card.pci_bus_id,
        "pciRootId": card.pci_root_id,
        "pciClass": card.pci_class,
        "numa": card.numa,
        "cpus": card.cpus,
        "computeCapability": card.compute_capability,
        "family": card.family,
        "mig": card.mig,
        "profiles": [_profile_document(profile) for profile in card.profiles],
        "foreign": _places_document(card.foreign),
        "trouble": card.trouble,
    }
    return document


def _profile_document(profile: ProfileReading) -> dict[str, Any]:
    return {
        "name": profile.name,
        "memoryMib": profile.memory_mib,
        "computeSlices": profile.compute_slices,
        "count": profile.count,
        "placements": _places_document(profile.placements),
    }


def _places_document(places: tuple[Placement, ...]) -> list[dict[str, int]]:
    return [{"start": place.start, "length": place.length} for place in places]


def _card(field: Field) -> CardReading:
    fields = field.fields(*_card_document(CardReading(0, "", "", 0)))
    for name in ("uuid", "name", "memoryBytes"):
        if fields[name].absent or not fields[name].value():
            fields[name].missing("write what the driver said")
    numa = fields["numa"]
    return CardReading(
        index=fields["index"].integer(0, least=0),
        uuid=fields["uuid"].text(),
        name=fields["name"].text(),
        memory_bytes=fields["memoryBytes"].integer(0, least=1, most=2**53),
        cores=fields["cores"].integer(0, least=0),
        pci_bus_id=fields["pciBusId"].text(),
        pci_root_id=fields["pciRootId"].text(),
        pci_class=fields["pciClass"].text(),
        numa=None if numa.absent else numa.integer(0, least=0),
        cpus=fields["cpus"].text(),
        compute_capability=fields["computeCapability"].text(),
        family=fields["family"].text(),
        mig=fields["mig"].flag(),
        profiles=tuple(_profile(item) for item in fields["profiles"].items("write a list of profiles")),
        foreign=_places(fields["foreign"]),
        trouble=fields["trouble"].text(),
    )


def _profile(field: Field) -> ProfileReading:
    fields = field.fields("name", "memoryMib", "computeSlices", "count", "placements")
    return ProfileReading(
        name=fields["name"].text(),
        memory_mib=fields["memoryMib"].integer(0, least=1),
        compute_slices=fields["computeSlices"].integer(0, least=0, most=64),
        count=fields["count"].integer(0, least=0, most=64),
        placements=_places(fields["placements"]),
    )


def _places(field: Field) -> tuple[Placement, ...]:
    places = [place.fields("start", "length") for place in field.items("write a list of start and length")]
    return tuple(
        Placement(place["start"].integer(0, least=0, most=63), place["length"].integer(1, least=1, most=64))
        for place in places
    )


def _distinct(cards: tuple[CardReading, ...], field: Field) -> None:
    uuids = [card.uuid for card in cards if card.uuid]
    for uuid in sorted({uuid for uuid in uuids if uuids.count(uuid) > 1}):
        field.wrong(f"{uuid} is the uuid of two cards; every card has its own")
