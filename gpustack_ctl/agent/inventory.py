"""What a detector found on this node, and how it is published.

An inventory is capability only: models, cards, memory, geometry, health. Who holds a card is the ledger's business and
never a detector's. `Inventory.spec` is the one way from here to `Devices.spec`, so every detector publishes one shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel.geometry import Profile
from gpustack_ctl.accel.naming import akey


@dataclass(frozen=True, slots=True)
class CardLocation:
    """Where a card sits in the machine; empty where the detector cannot tell."""

    pci_bus_id: str = ""
    pci_root_id: str = ""
    pci_class: str = ""
    numa: int | None = None
    cpus: str = ""


@dataclass(frozen=True, slots=True)
class DetectedCard:
    """One physical accelerator. `slots` is how many logical slices it may host, `profiles` what it is cut into.

    `physical_indexes` are the driver's own numbers for it, where they are not our index: a driver counts cards that
    failed to start, and we do not.
    """

    id: str
    index: int
    location: CardLocation = CardLocation()
    healthy: bool = True
    slots: int = 0
    profiles: tuple[Profile, ...] = ()
    physical_indexes: tuple[int, ...] = ()

    @property
    def driver_index(self) -> int:
        """The number by which the driver and its tools know the card."""
        return self.physical_indexes[0] if self.physical_indexes else self.index


@dataclass(frozen=True, slots=True)
class DetectedModel:
    """The cards of one model. `group` is the id that names the model everywhere else."""

    group: str
    manufacturer: str
    product: str
    memory_mib: int
    cards: tuple[DetectedCard, ...]
    cores: int = 0
    cores_overcommit: bool = False
    driver_version: str = ""
    runtime_version: str = ""
    compute_capability: str = ""
    family: str = ""

    @property
    def akey(self) -> str:
        """The accelerator key, e.g. `nvidia-a10g`."""
        return akey(self.manufacturer, self.group)


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything one detection found."""

    models: tuple[DetectedModel, ...] = ()

    def spec(self) -> dict[str, Any]:
        """The `Devices.spec` that says the same; equal inventories give equal specs."""
        return {"groups": [_group(model) for model in self.models]}


def _group(model: DetectedModel) -> dict[str, Any]:
    described = {
        "cores": model.cores,
        "driverVersion": model.driver_version,
        "runtimeVersion": model.runtime_version,
        "computeCapability": model.compute_capability,
        "family": model.family,
    }
    return {
        "id": model.group,
        "manufacturer": model.manufacturer,
        "name": model.product,
        "memory": model.memory_mib,
        **{key: value for key, value in described.items() if value},
        "accelerators": [_accelerator(card, model) for card in model.cards],
        "acceleratorSlicedDetail": _sliced_detail(model),
    }


def _accelerator(card: DetectedCard, model: DetectedModel) -> dict[str, Any]:
    location = card.location
    topology = {
        "pciBusId": location.pci_bus_id,
        "pciRootId": location.pci_root_id,
        "pciClass": location.pci_class,
        "numaAffinity": "" if location.numa is None else str(location.numa),
        "cpuAffinity": location.cpus,
    }
    status: dict[str, Any] = {
        "unhealthy": not card.healthy,
        "logicalSliced": {"count": _slots(card), "coresPercentageOvercommit": model.cores_overcommit},
    }
    if card.profiles:
        status["physicalSliced"] = {
            "count": max(profile.count for profile in card.profiles),
            "profiles": [_profile(profile) for profile in card.profiles],
        }
    return {
        "id": card.id,
        "index": card.index,
        "physicalIndexes": list(card.physical_indexes or (card.index,)),
        "topology": {key: value for key, value in topology.items() if value},
        "status": status,
    }


def _profile(profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "memoryMib": profile.memory_mib,
        "computeSlices": profile.compute_slices,
        "memorySlices": profile.memory_slices,
        "count": profile.count,
        "placements": [{"start": place.start, "length": place.length} for place in profile.placements],
    }


def _sliced_detail(model: DetectedModel) -> dict[str, Any]:
    """The group's catalog: what all its cards offer together."""
    profiles: dict[str, dict[str, Any]] = {}
    for profile in _profiles(model.cards):
        row = profiles.setdefault(profile.name, {"name": profile.name, "count": 0, "memoryMib": profile.memory_mib})
        row["count"] += profile.count
    detail: dict[str, Any] = {
        "logical": {
            "count": sum(_slots(card) for card in model.cards),
            "coresPercentageOvercommit": model.cores_overcommit,
        }
    }
    if profiles:
        most = sum(max(profile.count for profile in card.profiles) for card in model.cards if card.profiles)
        detail["physical"] = {"count": most, "profiles": list(profiles.values())}
    return detail


def _profiles(cards: Iterable[DetectedCard]) -> Iterable[Profile]:
    for card in cards:
        yield from card.profiles


def _slots(card: DetectedCard) -> int:
    """A card cut into partitions hosts no logical slice."""
    return 0 if card.profiles else card.slots
