"""What a pool's ledgers say together: the four views, and the catalog of what its cards can do.

The views are kept per node and re-read only where a `Devices` has a new version, so that one allocation in a pool of a
thousand nodes costs one node. The catalog comes from the spec side and does not move as cards are taken: a profile that
is full for the moment is still on offer.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpustack_ctl.accel.cards import Card, cards_of
from gpustack_ctl.accel.ledger import published
from gpustack_ctl.accel.views import FourViews, PoolViews, contribution
from gpustack_ctl.kube.objects import Obj, name_of, version_of


class PoolLedgers:
    """The views of one pool, brought up to date node by node."""

    def __init__(self, akey: str) -> None:
        self._akey = akey
        self._views = PoolViews()
        self._versions: dict[str, int] = {}

    def refresh(self, members: Iterable[Obj]) -> FourViews:
        """The views over these `Devices`, which are all that the pool has."""
        present = {name_of(devices): devices for devices in members}
        for node, devices in present.items():
            if self._versions.get(node) != version_of(devices):
                self._views.update(
                    node, contribution(card for card in published(devices) if card.card.akey == self._akey)
                )
                self._versions[node] = version_of(devices)
        for node in self._versions.keys() - present.keys():
            self._views.update(node, None)
            del self._versions[node]
        return self._views.views()


def catalog(akey: str, members: Iterable[Obj]) -> dict[str, Any] | None:
    """`InstanceType.status.detail` of an accelerated pool; None while no node has published such a card.

    Descriptors are the same on every card of a model. Where nodes differ in how their cards are cut, everything that
    some card offers is on offer.
    """
    groups = [
        (group, cards_of({"groups": [group]}))
        for devices in sorted(members, key=name_of)
        for group in devices.get("spec", {}).get("groups") or ()
        if f"{group['manufacturer']}-{group['id']}" == akey
    ]
    if not groups:
        return None
    described = groups[0][0]
    cards = [card for _, cards in groups for card in cards]
    detail = {
        "manufacturer": described["manufacturer"],
        "product": described.get("name"),
        "family": described.get("family"),
        "memory": f"{described['memory']}Mi" if described.get("memory") else None,
        "cores": str(described["cores"]) if described.get("cores") else None,
        "computeCapability": described.get("computeCapability"),
        "slicedDetail": _slicing(cards),
    }
    return {field: value for field, value in detail.items() if value}


def _slicing(cards: Iterable[Card]) -> Mapping[str, Any]:
    slots, overcommit, instances = 0, False, 0
    profiles: dict[str, dict[str, Any]] = {}
    for card in cards:
        slots, overcommit = max(slots, card.slots), overcommit or card.cores_overcommit
        instances = max(instances, card.partition_count)
        for profile in card.profiles:
            known = profiles.setdefault(
                profile.name, {"name": profile.name, "count": 0, "memoryMib": profile.memory_mib}
            )
            known["count"] = max(known["count"], profile.count)
    detail: dict[str, Any] = {}
    if slots:
        detail["logical"] = {"count": slots, "coresPercentageOvercommit": overcommit}
    if instances:
        detail["physical"] = {"count": instances, "profiles": [profiles[name] for name in sorted(profiles)]}
    return detail
