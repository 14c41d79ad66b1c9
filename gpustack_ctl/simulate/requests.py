"""Gate 1: what Workloads ask for, folded and judged as the Pod webhook does it.

The webhook's answer depends on the template and the pool alone, so it is asked once per template: a million Workloads
of ten kinds are ten questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from gpustack_ctl.accel.families import KeyKind, Manufacturers, transformations
from gpustack_ctl.accel.judgement import judge
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.requests import ContainerDemand, PodDemand, read_pod
from gpustack_ctl.accel.units import quantity
from gpustack_ctl.simulate.scenario import PodSetEntry

#: The counting keys of a node, as the simulator counts them; those by partition profile are counted when asked for.
COUNTED = (
    KeyKind.WHOLE,
    KeyKind.SHARED,
    KeyKind.SLICED,
    KeyKind.SLICED_UNITS,
    KeyKind.CORES_PERCENTAGE,
    KeyKind.PARTITIONED,
    KeyKind.PARTITIONED_UNITS,
)


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """What one Pod needs of a pool's cards. Equal templates share one object, which therefore serves as a key.

    `amounts` is what the scheduler counts on a node, by place in `COUNTED`, and `profiles` by partition profile;
    `cards` is the least number of cards that the node must have, as the webhook pinned it. `largest` is the claim on
    most cards, `distinct_cards` how many must each have room for a part of it, `counted` the places counted, as bits.
    """

    akey: str
    manufacturer: str
    demand: PodDemand
    amounts: tuple[tuple[int, int], ...]
    profiles: tuple[tuple[str, int], ...]
    cards: int
    credits: int
    units: int = field(init=False)
    largest: ContainerDemand = field(init=False)
    distinct_cards: int = field(init=False)
    counted: int = field(init=False)

    def __post_init__(self) -> None:
        claims = self.demand.containers
        largest = max(claims, key=lambda claim: (claim.cards, claim.units))
        object.__setattr__(self, "units", self.demand.units)
        object.__setattr__(self, "largest", largest)
        object.__setattr__(self, "counted", sum(1 << place for place, _ in self.amounts))
        object.__setattr__(self, "distinct_cards", 1 if largest.profile else largest.cards)

    def cores(self, container: str) -> int:
        """The compute percentage of the container's slice, as its node counts it."""
        return next(claim.cores_percentage or 0 for claim in self.demand.containers if claim.container == container)


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """A PodSet: so many Pods of one need."""

    name: str
    pods: int
    need: Need


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What a Workload asks, or why gate 1 refuses it."""

    akey: str
    roles: tuple[Role, ...] = ()
    refusal: str = ""

    @property
    def units(self) -> int:
        """Units of cards that the Workload takes, all its Pods together."""
        return sum(role.pods * role.need.units for role in self.roles)


class Requests:
    """Reads PodSets by the pools they are sent to; `pools` by accelerator key."""

    def __init__(self, pools: Mapping[str, Pool], table: Manufacturers) -> None:
        self._pools = pools
        self._table = table
        self._prices = {
            row["input"]: {name: int(price) for name, price in row["outputs"].items()} for row in transformations(table)
        }
        self._needs: dict[tuple[str, bytes], Need | str] = {}
        self._requests: dict[Any, Request] = {}

    def of(self, akey: str, pod_sets: Sequence[PodSetEntry]) -> Request:
        """The request that the PodSets amount to; equal ones are one object."""
        roles: list[Role] = []
        for pod_set in pod_sets:
            need = self._need(akey, pod_set.pod_spec)
            if isinstance(need, str):
                role = f'PodSet "{pod_set.name}": ' if len(pod_sets) > 1 else ""
                return Request(akey, refusal=role + need)
            roles.append(Role(pod_set.name, pod_set.count, need))
        key = (akey, tuple((role.name, role.pods, role.need) for role in roles))
        return self._requests.setdefault(key, Request(akey, tuple(roles)))

    def _need(self, akey: str, spec: Mapping[str, Any]) -> Need | str:
        key = (akey, orjson.dumps(spec, option=orjson.OPT_SORT_KEYS))
        if key not in self._needs:
            self._needs[key] = self._read(akey, spec)
        return self._needs[key]

    def _read(self, akey: str, spec: Mapping[str, Any]) -> Need | str:
        pool = self._pools.get(akey)
        queue = pool.name if pool else akey
        judgement = judge(spec, table=self._table, pool=pool, queue=queue)
        if judgement.errors:
            return "; ".join(map(str, judgement.errors))
        folded = judgement.spec
        demand = read_pod(folded, table=self._table, pool=pool, queue=queue)
        if demand.none:
            return "asks for no accelerator; give a container one, e.g. nvidia.com/gpu: 1"
        amounts, profiles = self._counted(folded)
        return Need(
            akey=akey,
            manufacturer=demand.manufacturer or "",
            demand=demand,
            amounts=tuple(amounts.items()),
            profiles=tuple(profiles.items()),
            cards=_pinned_cards(folded),
            credits=self._credits(folded),
        )

    def _counted(self, spec: Mapping[str, Any]) -> tuple[dict[int, int], dict[str, int]]:
        amounts: dict[int, int] = {}
        profiles: dict[str, int] = {}
        for key, amount in _pod_amounts(spec).items():
            known = self._table.read(key)
            if known is None:
                continue
            if known.profile is not None:
                profiles[known.profile] = amount
            elif known.kind in (KeyKind.MEMORY_PERCENTAGE, KeyKind.MEMORY_MIB):
                continue  # they fold to units, and a node that lacks them lacks the units too
            elif known.kind is KeyKind.CORES_PERCENTAGE and known.manufacturer.cores_overcommit:
                continue  # a node then has a whole card's compute for every slot
            else:
                amounts[COUNTED.index(known.kind)] = amount
        return amounts, profiles

    def _credits(self, spec: Mapping[str, Any]) -> int:
        """What Kueue charges for one Pod, by the transformations that it is configured with."""
        charged: Counter[str] = Counter()
        for key, amount in _pod_amounts(spec).items():
            for name, price in self._prices.get(key, {}).items():
                charged[name] += price * amount
        return charged.total()


def _pod_amounts(spec: Mapping[str, Any]) -> dict[str, int]:
    """A Pod's requests as Kubernetes adds them up: its containers together, or the largest init container."""
    running: Counter[str] = Counter()
    for container in spec.get("containers") or ():
        running.update(_amounts(container))
    most = dict(running)
    for container in spec.get("initContainers") or ():
        for key, amount in _amounts(container).items():
            most[key] = max(most.get(key, 0), amount)
    return most


def _amounts(container: Mapping[str, Any]) -> dict[str, int]:
    return {key: quantity(amount) for key, amount in container["resources"]["limits"].items()}


def _pinned_cards(spec: Mapping[str, Any]) -> int:
    """The cards that a node must have at least, as the fold pinned it in the node affinity; zero without a pin."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    more_than = [int(rule["values"][0]) for term in terms for rule in term["matchExpressions"]]
    return max(more_than, default=-1) + 1
