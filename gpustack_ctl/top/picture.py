"""What there is to see, as values: a pure function of the objects."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel.cards import Occupancy, PodKey, cards_of
from gpustack_ctl.accel.families import Manufacturers, Mode
from gpustack_ctl.accel.ledger import published, rebuild
from gpustack_ctl.controllers.pins import pin_of, urgency
from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.controllers.verdicts import HELD
from gpustack_ctl.controllers.workloads import check_state
from gpustack_ctl.explain.events import moment
from gpustack_ctl.kube.objects import Obj, Objs, condition, deleting, is_true, key_of, name_of, namespace_of, uid_of

VIEWS = ("accelerator", "acceleratorShared", "acceleratorSliced", "acceleratorPartitioned", "cpu")


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool as its InstanceType's status says: `views` by field, `printed` as `kubectl` shows them."""

    name: str
    entrance: str
    phase: str
    views: Mapping[str, Any]
    printed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CardRow:
    """A card as its node's agent published it, and the Pods that hold it by their records."""

    id: str
    index: int
    model: str
    mode: Mode
    allocated: int
    remaining: int
    slices: int
    profiles: Mapping[str, int]
    unhealthy: bool
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node and its cards."""

    name: str
    cards: tuple[CardRow, ...]


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A Workload that is not admitted: where it waits, since when, and why."""

    workload: str
    queue: str
    since: str
    message: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything at one moment."""

    pools: tuple[PoolRow, ...] = ()
    nodes: tuple[NodeRow, ...] = ()
    pending: tuple[PendingRow, ...] = ()


def picture(sources: Sources, *, holds: Iterable[Obj] = (), table: Manufacturers) -> Picture:
    """The fleet as the informers hold it. `holds` are the events of holds: what Kueue has reset, they still say."""
    told: dict[str, str] = {}
    for event in sorted(holds, key=moment):
        if event.get("reason") == HELD:
            told[(event.get("regarding") or {}).get("uid", "")] = event.get("note", "")
    bound: dict[str, Objs] = {}
    for pod in sources.pods.list():
        bound.setdefault(pod["spec"].get("nodeName") or "", []).append(pod)
    waiting = sorted((each for each in sources.workloads.list() if is_pending(each)), key=urgency)
    return Picture(
        pools=tuple(map(_pool, sorted(sources.instance_types.list(), key=name_of))),
        nodes=tuple(
            NodeRow(name_of(devices), tuple(_cards(devices, bound.get(name_of(devices), []), table)))
            for devices in sorted(sources.devices.list(), key=name_of)
        ),
        pending=tuple(_pending(each, sources, told.get(uid_of(each), "")) for each in waiting),
    )


def is_pending(workload: Obj) -> bool:
    """Whether the Workload waits for one of the gates 2 and 3."""
    return not (is_true(workload, "Admitted") or is_true(workload, "Finished") or deleting(workload))


def _pool(instance_type: Obj) -> PoolRow:
    status = instance_type.get("status") or {}
    return PoolRow(
        name=name_of(instance_type),
        entrance=status.get("entrance", ""),
        phase=status.get("phase", ""),
        views={view: status[view] for view in VIEWS if view in status},
        printed=status.get("printed") or {},
    )


def _cards(devices: Obj, pods: Objs, table: Manufacturers) -> Iterator[CardRow]:
    holders = _holders(devices, pods, table)
    for occupancy in published(devices):
        yield _card(occupancy, holders.get(occupancy.card.id, ()))


def _holders(devices: Obj, pods: Objs, table: Manufacturers) -> dict[str, tuple[str, ...]]:
    """By card, who holds it: the ledger's own account of the node's Pods."""
    ledger = rebuild(cards_of(devices.get("spec") or {}), pods, table=table)
    held: dict[str, Iterable[PodKey]] = {
        state.card.id: dict.fromkeys(holding.pod for holding in state.holdings) for state in ledger.states
    }
    return {card: tuple(map(str, holders)) for card, holders in held.items()}


def _card(occupancy: Occupancy, pods: tuple[str, ...]) -> CardRow:
    card = occupancy.card
    return CardRow(
        id=card.id,
        index=card.index,
        model=card.akey,
        mode=occupancy.mode,
        allocated=occupancy.allocated,
        remaining=occupancy.remaining,
        slices=occupancy.slices,
        profiles={name: count for name, count in occupancy.allocated_profiles().items() if count},
        unhealthy=not card.healthy,
        pods=pods,
    )


def _pending(workload: Obj, sources: Sources, told: str) -> PendingRow:
    name = workload["spec"].get("queueName", "")
    entrance = sources.local_queues.get(f"{namespace_of(workload)}/{name}")
    queue = entrance["spec"].get("clusterQueue", name) if entrance is not None else name
    return PendingRow(key_of(workload), queue, _since(workload), _why(workload, told))


def _since(workload: Obj) -> str:
    """Since when it waits: since it was made or, where it has run before, since it lost its admission."""
    admitted = condition(workload, "Admitted")
    if admitted is not None and "accumulatedPastExecutionTimeSeconds" in workload["status"]:
        return str(admitted.get("lastTransitionTime", ""))
    return str(workload["metadata"].get("creationTimestamp", ""))


def _why(workload: Obj, told: str) -> str:
    """The last word of gate 3 when it holds the Workload, else of Kueue."""
    pin, state = pin_of(workload), check_state(workload) or {}
    if state.get("state") in ("Retry", "Rejected"):
        return str(state.get("message", ""))
    if pin is not None and pin.why:
        return pin.why
    reserved = condition(workload, "QuotaReserved") or {}
    if reserved.get("status") == "True":
        return state.get("message") or "waits for its admission checks"
    evicted = condition(workload, "Evicted") or {}
    if told and evicted.get("reason") == "AdmissionCheck":
        return told
    return reserved.get("message") or "waits for quota"
