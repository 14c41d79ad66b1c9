"""From what NVML said to the inventory that the agent publishes. Values in, a value out."""

from __future__ import annotations

from gpustack_ctl.accel.families import Manufacturer, Manufacturers, published_profile
from gpustack_ctl.accel.geometry import Profile, mask_of
from gpustack_ctl.accel.naming import group_id
from gpustack_ctl.agent.inventory import CardLocation, DetectedCard, DetectedModel, Inventory
from gpustack_ctl.agent.nvml.snapshot import CardReading, Snapshot

_MIB = 1024 * 1024


def inventory_of(snapshot: Snapshot, *, table: Manufacturers, group_id_with_memory: bool = False) -> Inventory:
    """The cards of a snapshot by model, in the driver's order."""
    nvidia = table.by_key["nvidia"]
    groups: dict[str, list[CardReading]] = {}
    for card in snapshot.cards:
        memory = card.memory_bytes // _MIB if group_id_with_memory else None
        groups.setdefault(group_id(card.name, nvidia.key, memory_mib=memory), []).append(card)
    return Inventory(tuple(_model(group, cards, snapshot, nvidia) for group, cards in groups.items()))


def _model(group: str, cards: list[CardReading], snapshot: Snapshot, nvidia: Manufacturer) -> DetectedModel:
    first = cards[0]
    return DetectedModel(
        group=group,
        manufacturer=nvidia.key,
        product=first.name,
        # One figure stands for the whole model: the smallest can be promised on any of its cards.
        memory_mib=min(card.memory_bytes for card in cards) // _MIB,
        cards=tuple(_card(card, nvidia) for card in cards),
        cores=first.cores,
        cores_overcommit=nvidia.cores_overcommit,
        driver_version=snapshot.driver_version,
        runtime_version=snapshot.cuda_version,
        compute_capability=first.compute_capability,
        family=first.family,
    )


def _card(card: CardReading, nvidia: Manufacturer) -> DetectedCard:
    profiles = _published(card, nvidia) if card.mig else ()
    return DetectedCard(
        id=card.uuid,
        index=card.index,
        location=CardLocation(
            pci_bus_id=card.pci_bus_id,
            pci_root_id=card.pci_root_id,
            pci_class=card.pci_class,
            numa=card.numa,
            cpus=card.cpus,
        ),
        # Under MIG nothing can run on the card as a whole: without a profile to cut there is no way to use it at all.
        healthy=not card.trouble and (not card.mig or bool(profiles)),
        slots=0 if card.mig else nvidia.slices,
        profiles=profiles,
    )


def _published(card: CardReading, nvidia: Manufacturer) -> tuple[Profile, ...]:
    """The profiles that a resource key can name and the card has a place for, each name once.

    A place under an instance that was not made for a Pod is none of ours to give: the driver would refuse it.
    """
    taken = mask_of(card.foreign)
    published: dict[str, Profile] = {}
    for profile in card.profiles:
        name = published_profile(nvidia, profile.name)
        places = tuple(place for place in profile.placements if not place.mask & taken)
        if name is None or not places:
            continue
        published.setdefault(
            name,
            Profile(
                name=name,
                memory_mib=profile.memory_mib,
                compute_slices=profile.compute_slices,
                memory_slices=max(place.length for place in places),
                count=min(profile.count, len(places)),
                placements=places,
            ),
        )
    return tuple(published.values())
