"""What a pool's ledgers say together: the four views, and the catalog of what its cards can do.

Both are kept per node and re-read only where a `Devices` has a new version, so that one allocation in a pool of a
thousand nodes costs one node. The catalog comes from the spec side and does not move as cards are taken: a profile that
is full for the moment is still on offer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel.cards import cards_of
from gpustack_ctl.accel.ledger import published
from gpustack_ctl.accel.views import FourViews, PoolViews, contribution
from gpustack_ctl.kube.objects import Obj, name_of, version_of


class PoolLedgers:
    """The `Devices` behind one pool, brought up to date node by node."""

    def __init__(self, akey: str) -> None:
        self._akey = akey
        self._views = PoolViews()
        self._versions: dict[str, int] = {}
        self._offers: dict[str, Offer] = {}
        self._catalog: dict[str, Any] | None = None

    def refresh(self, members: Iterable[Obj]) -> None:
        """Take note of these `Devices`, which are all that the pool has."""
        before = len(self._offers)
        present = {name_of(devices): devices for devices in members}
        stale = [devices for name, devices in present.items() if self._versions.get(name) != version_of(devices)]
        changed = [self._read(devices) for devices in stale]
        for node in self._versions.keys() - present.keys():
            self._views.update(node, None)
            del self._versions[node]
            self._offers.pop(node, None)
        if any(changed) or len(self._offers) != before:
            self._catalog = catalog(self._offers)

    def views(self) -> FourViews:
        """The four views now."""
        return self._views.views()

    def catalog(self) -> Mapping[str, Any] | None:
        """`InstanceType.status.detail` of the pool; None while no node has published such a card."""
        return self._catalog

    def _read(self, devices: Obj) -> bool:
        """Re-read one node; says whether what it offers changed."""
        node = name_of(devices)
        self._versions[node] = version_of(devices)
        self._views.update(node, contribution(each for each in published(devices) if each.card.akey == self._akey))
        before, now = self._offers.pop(node, None), offer_of(devices, self._akey)
        if now is not None:
            self._offers[node] = now
        return before != now


@dataclass(frozen=True, slots=True)
class Offer:
    """What one node's cards of a model can do: the model's descriptors, and the most that any card offers."""

    described: Mapping[str, Any]
    slots: int
    overcommit: bool
    instances: int
    profiles: Mapping[str, tuple[int, int]]


def offer_of(devices: Obj, akey: str) -> Offer | None:
    """What a node offers of one model; None when it has no such card."""
    for group in devices.get("spec", {}).get("groups") or ():
        cards = cards_of({"groups": [group]})
        if not cards or cards[0].akey != akey:
            continue
        profiles: dict[str, tuple[int, int]] = {}
        for profile in (profile for card in cards for profile in card.profiles):
            _, count = profiles.get(profile.name, (0, 0))
            profiles[profile.name] = (profile.memory_mib, max(count, profile.count))
        return Offer(
            described=_descriptors(group),
            slots=max(card.slots for card in cards),
            overcommit=any(card.cores_overcommit for card in cards),
            instances=max(card.partition_count for card in cards),
            profiles=profiles,
        )
    return None


def catalog(offers: Mapping[str, Offer]) -> dict[str, Any] | None:
    """The detail of a pool from its nodes' offers.

    The descriptors are those of the first node by name. Where nodes differ in how their cards are cut, everything that
    some card offers is on offer.
    """
    if not offers:
        return None
    profiles: dict[str, tuple[int, int]] = {}
    for offer in offers.values():
        for name, (mib, count) in offer.profiles.items():
            profiles[name] = (mib, max(count, profiles.get(name, (0, 0))[1]))
    slots = max(offer.slots for offer in offers.values())
    instances = max(offer.instances for offer in offers.values())
    sliced: dict[str, Any] = {}
    if slots:
        overcommit = any(offer.overcommit for offer in offers.values())
        sliced["logical"] = {"count": slots, "coresPercentageOvercommit": overcommit}
    if instances:
        listed = [{"name": name, "count": count, "memoryMib": mib} for name, (mib, count) in sorted(profiles.items())]
        sliced["physical"] = {"count": instances, "profiles": listed}
    return {**offers[min(offers)].described, **({"slicedDetail": sliced} if sliced else {})}


def _descriptors(group: Mapping[str, Any]) -> dict[str, Any]:
    detail = {
        "manufacturer": group["manufacturer"],
        "product": group.get("name"),
        "family": group.get("family"),
        "memory": f"{group['memory']}Mi" if group.get("memory") else None,
        "cores": str(group["cores"]) if group.get("cores") else None,
        "computeCapability": group.get("computeCapability"),
    }
    return {field: value for field, value in detail.items() if value}
