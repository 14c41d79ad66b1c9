"""Small ways to say "a node with such cards, held so" and "a Pod that wants that"."""

import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpustack_ctl.accel.cards import Card, CardState, Holding, NodeCards, PodKey, state_of
from gpustack_ctl.accel.families import Family, Mode, manufacturers
from gpustack_ctl.accel.feasibility import Demand
from gpustack_ctl.accel.geometry import Placement, Profile
from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.accel.mig_models import mig_profiles
from gpustack_ctl.accel.placement import Choice
from gpustack_ctl.accel.records import format_record
from gpustack_ctl.accel.requests import ContainerDemand, PodDemand
from gpustack_ctl.accel.units import SHARE_UNITS, M, percentage_units

TABLE = manufacturers()
A10G = "nvidia-a10g"
A100 = "nvidia-a100-sxm4-80gb"
MIG = mig_profiles("a100-sxm4-80gb")

_SLOTS = {"nvidia": 128, "hygon": 4, "cambricon": 16, "metax": 16}


def card(index: int = 0, *, group: str = "a10g", manufacturer: str = "nvidia", **changes: Any) -> Card:
    """A healthy card that can be sliced; named by its index."""
    fields = {"memory_mib": 24576, "slots": _SLOTS[manufacturer], "cores_overcommit": manufacturer == "nvidia"}
    return Card(f"GPU-{index}", index, group, manufacturer, **(fields | changes))


def mig_card(index: int = 0, *, profiles: Sequence[Profile] = MIG, **changes: Any) -> Card:
    """An A100 cut into partitions."""
    fields: dict[str, Any] = {"group": "a100-sxm4-80gb", "memory_mib": 81920, "slots": 0}
    return card(index, partition_count=7, profiles=tuple(profiles), **(fields | changes))


def holder(name: str = "other") -> PodKey:
    return PodKey("team", name, f"uid-{name}")


def whole(by: str = "other") -> Holding:
    return Holding(holder(by), "main", Mode.EXCLUSIVE, M)


def share(by: str = "other") -> Holding:
    return Holding(holder(by), "main", Mode.SHARED, SHARE_UNITS)


def a_slice(percent: int, by: str = "other") -> Holding:
    return Holding(holder(by), "main", Mode.SLICED, percentage_units(percent))


def a_partition(profile: str, start: int, *, of: Card | None = None, by: str = "other") -> Holding:
    known = (of or mig_card()).profile(profile)
    assert known is not None
    length = known.memory_slices
    units = known.memory_mib * M // (of or mig_card()).memory_mib
    return Holding(holder(by), "main", Mode.PARTITIONED, units, profile, (Placement(start, length),))


def held(of: Card, *holdings: Holding) -> CardState:
    return state_of(of, holdings)


def node(*states: CardState | Card, name: str = "node-1", counts: Mapping[str, int] | None = None) -> NodeCards:
    return NodeCards(name, tuple(s if isinstance(s, CardState) else state_of(s) for s in states), counts or {})


def free_node(count: int, *, name: str = "node-1", **changes: Any) -> NodeCards:
    return node(*(card(index, **changes) for index in range(count)), name=name)


def wants_whole(cards: int = 1, container: str = "main") -> ContainerDemand:
    return ContainerDemand(container, "running", Family.EXCLUSIVE, "nvidia", cards, M)


def wants_share(cards: int = 1, container: str = "main") -> ContainerDemand:
    return ContainerDemand(container, "running", Family.SHARED, "nvidia", cards, SHARE_UNITS)


def wants_slice(
    percent: int, container: str = "main", *, cards: int = 1, manufacturer: str = "nvidia"
) -> ContainerDemand:
    return ContainerDemand(container, "running", Family.SLICED, manufacturer, cards, percentage_units(percent))


def wants_partition(profile: str, container: str = "main", *, cards: int = 1) -> ContainerDemand:
    known = mig_card().profile(profile)
    units = known.memory_mib * M // 81920 if known else 1
    return ContainerDemand(container, "running", Family.PARTITIONED, "nvidia", cards, units, profile)


def demand(
    *claims: ContainerDemand,
    pods: int = 1,
    akey: str = A10G,
    on: str | None = "node-1",
    role: str = "main",
    card_count: int | None = None,
) -> Demand:
    return Demand(role, PodDemand(claims), pods, akey, on, card_count)


_KEYS = {
    Family.EXCLUSIVE: "nvidia.com/gpu",
    Family.SHARED: "nvidia.com/gpu.shared",
    Family.SLICED: "nvidia.com/gpu.sliced",
    Family.PARTITIONED: "nvidia.com/gpu.partitioned",
}
_serial = itertools.count()


def pod(
    record: Mapping[str, Iterable[Choice]] | str | None = None,
    *,
    asks: Mapping[str, str] | None = None,
    name: str | None = None,
    phase: str = "Running",
    init: Iterable[str] = (),
) -> dict[str, Any]:
    """A Pod bound to the node: what its containers ask for (by token key) and what is recorded for them."""
    name = name or f"pod-{next(_serial)}"
    metadata: dict[str, Any] = {"namespace": "team", "name": name, "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name))}
    if record is not None:
        metadata["annotations"] = {ALLOCATED: record if isinstance(record, str) else recorded(record)}
    if asks is None:
        asks = {"main": _KEYS[Family.EXCLUSIVE]} if not isinstance(record, Mapping) else _asks_of(record)
    containers = [{"name": each, "resources": {"limits": {key: "1", "cpu": "1"}}} for each, key in asks.items()]
    spec = {
        "containers": [each for each in containers if each["name"] not in init],
        "initContainers": [each for each in containers if each["name"] in init],
    }
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def recorded(record: Mapping[str, Iterable[Choice]]) -> str:
    return format_record({name: tuple(choice.entry() for choice in choices) for name, choices in record.items()})


def key_of(obj: Mapping[str, Any]) -> PodKey:
    return PodKey("team", obj["metadata"]["name"], obj["metadata"]["uid"])


def choice(of: Card, mode: Mode, units: int = M, profile: str = "", start: int | None = None) -> Choice:
    place = None
    if start is not None:
        known = of.profile(profile)
        assert known is not None
        place = Placement(start, known.memory_slices)
    return Choice("main", of, mode, units, profile, place)


def _asks_of(record: Mapping[str, Iterable[Choice]]) -> dict[str, str]:
    families = {family.mode: family for family in Family}
    return {name: _KEYS[families[each.mode]] for name, choices in record.items() for each in choices}
