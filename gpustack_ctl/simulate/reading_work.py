"""The work of a scenario: Workloads listed or drawn, and the events that befall them and the nodes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from gpustack_ctl.accel.families import Family, Manufacturers
from gpustack_ctl.documents.marked import Field
from gpustack_ctl.simulate.scenario import (
    EventEntry,
    NodesEntry,
    PodSetEntry,
    RandomEntry,
    Weights,
    WorkloadEntry,
    models,
)

MOST_PODS = 10**9
MOST_REQUESTS = 100_000_000


def read_workloads(field: Field, nodes: Sequence[NodesEntry], *, table: Manufacturers) -> tuple[WorkloadEntry, ...]:
    """Read the listed Workloads; faults go to the field's document."""
    names: set[str] = set()
    known = {name for entry in nodes for name in entry.names}
    found = []
    for item in field.items("write a list of workloads"):
        workload = _workload(item, known, models(nodes), table)
        if workload.name in names:
            item.wrong(f"workload {workload.name} is there already; choose another name")
        names.add(workload.name)
        found.append(workload)
    return tuple(found)


def read_random(field: Field, nodes: Sequence[NodesEntry]) -> RandomEntry:
    """Read the distribution that Workloads are drawn from."""
    fields = field.fields("seed", "requests", "rate", "meanDuration", "mix", "sizes", "podSets", "pods", "pool")
    for name, example in (("requests", "1000"), ("rate", "10"), ("meanDuration", "600"), ("mix", "{exclusive: 1}")):
        if fields[name].absent:
            fields[name].missing(f"write {name}, e.g. {example}")
    mix = _weights(fields["mix"], _family_named)
    pools = models(nodes)
    return RandomEntry(
        seed=fields["seed"].integer(1, least=0),
        requests=fields["requests"].integer(1, least=1, most=MOST_REQUESTS),
        rate=fields["rate"].number(1.0),
        mean_duration=fields["meanDuration"].number(1.0),
        mix=mix,
        sizes=_sizes(fields["sizes"], [family for family, _ in mix]),
        pod_sets=_weights(fields["podSets"], _counted(1, 64)) or ((1, 1.0),),
        pods=_weights(fields["pods"], _counted(1, MOST_PODS)) or ((1, 1.0),),
        pool=_pool(fields["pool"], pools, set(pools)),
    )


def read_events(
    field: Field, nodes: Sequence[NodesEntry], workloads: Sequence[WorkloadEntry]
) -> tuple[EventEntry, ...]:
    """Read the events, in the order of time; those at one time in the order of the file."""
    fleet = {name: len(entry.cards) for entry in nodes for name in entry.names}
    names = {workload.name: workload.at for workload in workloads}
    items = field.items("write a list of events")
    found = [event for item in items if (event := _event(item, fleet, names)) is not None]
    return tuple(sorted(found, key=lambda event: event.at))


def _workload(field: Field, nodes: Collection[str], pools: Sequence[str], table: Manufacturers) -> WorkloadEntry:
    fields = field.fields("name", "at", "duration", "priority", "pool", "node", "podSets")
    if not fields["name"].text():
        fields["name"].missing("write the Workload's name")
    node = fields["node"].text() or None
    if node is not None and node not in nodes:
        fields["node"].wrong(f"no such node; {_close(node, nodes)}")
    pod_sets = _pod_sets(fields["podSets"], table)
    return WorkloadEntry(
        name=fields["name"].text(),
        at=fields["at"].seconds(0.0) or 0.0,
        duration=fields["duration"].seconds(None),
        priority=fields["priority"].integer(0, least=-(2**31)),
        pod_sets=pod_sets,
        pool=_pool(fields["pool"], pools, _manufacturers(pod_sets, table)),
        node=node,
    )


def _pod_sets(field: Field, table: Manufacturers) -> tuple[PodSetEntry, ...]:
    items = field.items("write a list of PodSets")
    if not items:
        field.missing("write at least one PodSet with containers")
    found: list[PodSetEntry] = []
    for item in items:
        fields = item.fields("name", "count", "containers", "initContainers")
        name = fields["name"].text("main")
        if name in {other.name for other in found}:
            fields["name"].wrong(f"PodSet {name} is there already; choose another name")
        if fields["containers"].absent:
            fields["containers"].missing("write a list of containers, each with its resources")
        spec = {
            section: [
                _container(container, at, table) for at, container in enumerate(fields[section].items(_CONTAINERS))
            ]
            for section in ("initContainers", "containers")
        }
        found.append(PodSetEntry(name, fields["count"].integer(1, least=1, most=MOST_PODS), spec))
    return tuple(found)


_CONTAINERS = "write a list of containers, e.g. [{nvidia.com/gpu: 1}]"


def _container(field: Field, at: int, table: Manufacturers) -> dict[str, Any]:
    """A container of a Pod spec from its resources alone. Amounts stay as written: gate 1 judges them."""
    name = f"c{at}"
    limits: dict[str, Any] = {}
    for key, amount in field.entries("write resources and amounts, e.g. {nvidia.com/gpu: 1}"):
        if key == "name":
            name = amount.text(name)
        elif table.read(key) is None:
            amount.wrong(f"no resource of an accelerator; {_close(key, _keys(table))}")
        else:
            value = amount.value()
            limits[key] = value if isinstance(value, int | float | str) else amount.text()
    return {"name": name, "resources": {"limits": limits}}


def _keys(table: Manufacturers) -> list[str]:
    suffixes = ("", ".shared", ".sliced", ".sliced.memory-percentage", ".sliced.memory-mib", ".partitioned")
    return [base + suffix for base in table.by_base for suffix in suffixes]


def _manufacturers(pod_sets: Sequence[PodSetEntry], table: Manufacturers) -> set[str]:
    read = (
        table.read(key)
        for pod_set in pod_sets
        for containers in pod_set.pod_spec.values()
        for container in containers
        for key in container["resources"]["limits"]
    )
    return {known.manufacturer.key for known in read if known is not None}


def _pool(field: Field, pools: Sequence[str], wanted: Collection[str]) -> str:
    """The pool as written, else the only one there is of the manufacturer that is asked for.

    `wanted` holds manufacturers, or the pools themselves where nothing is asked for yet.
    """
    if not field.absent:
        if field.text() not in pools:
            field.wrong(f"no such pool; {_close(field.text(), pools)}")
        return field.text()
    fitting = [pool for pool in pools if pool in wanted or pool.partition("-")[0] in wanted]
    if len(fitting) > 1:
        field.missing(f"several pools could be meant; write one of {', '.join(fitting)}")
    # Nobody's pool: gate 1 says what is wrong with asking for what the fleet has none of.
    return (fitting or list(pools) or [""])[0]


def _sizes(field: Field, families: Sequence[Family]) -> dict[Family, Weights]:
    fields = field.fields(*Family)
    sizes: dict[Family, Weights] = {}
    for family in families:
        of = fields[family]
        if of.absent:
            of.missing(f"write the sizes of {family} requests, e.g. {_SIZES[family][1]}")
        sizes[family] = _weights(of, _SIZES[family][0])
    return sizes


def _weights(field: Field, read: Callable[[str, Field], Any]) -> Weights:
    """What may be drawn, by weight. What has no weight is never drawn, and is left out."""
    found = []
    for text, weight in field.entries("write weights, e.g. {1: 0.7, 2: 0.3}"):
        if weight.value() != 0 and (value := read(text, weight)) is not None:
            found.append((value, weight.number(1.0)))
    if not found and not field.absent:
        field.wrong("nothing has a weight greater than 0; give one to something")
    return tuple(found)


def _family_named(text: str, field: Field) -> Family | None:
    if text in list(Family):
        return Family(text)
    field.wrong(f"no such family; the families are {', '.join(Family)}")
    return None


def _counted(least: int, most: int) -> Callable[[str, Field], int | None]:
    def read(text: str, field: Field) -> int | None:
        if text.isdecimal() and text.isascii() and least <= int(text) <= most:
            return int(text)
        field.wrong(f"its key must be a whole number from {least} to {most}")
        return None

    return read


def _profile_named(text: str, field: Field) -> str:  # noqa: ARG001 - which profiles there are, gate 1 knows
    return text


_SIZES: Mapping[Family, tuple[Callable[[str, Field], Any], str]] = {
    Family.EXCLUSIVE: (_counted(1, 64), "{1: 0.9, 8: 0.1}"),
    Family.SHARED: (_counted(1, 64), "{1: 1}"),
    Family.SLICED: (_counted(1, 100), "{25: 0.5, 50: 0.5}"),
    Family.PARTITIONED: (_profile_named, "{1g.10gb: 1}"),
}


def _event(field: Field, fleet: Mapping[str, int], workloads: Mapping[str, float]) -> EventEntry | None:
    fields = field.fields("at", "release", "unhealthy", "healthy", "gone")
    happening = [name for name in ("release", "unhealthy", "healthy", "gone") if not fields[name].absent]
    if len(happening) != 1:
        field.wrong("one thing happens in an event; write release, unhealthy, healthy or gone")
        return None
    if fields["at"].absent:
        fields["at"].missing("write when it happens, in seconds")
    at, subject = fields["at"].seconds(0.0) or 0.0, fields[happening[0]]
    match happening[0]:
        case "release":
            if at < workloads.get(subject.text(), 0.0):
                subject.wrong(f"arrives at {workloads[subject.text()]:g} only; release it then, or later")
            return _of(subject, workloads, "Workload", EventEntry(at, "release", subject.text()))
        case "gone":
            return _of(subject, fleet, "node", EventEntry(at, "gone", subject.text()))
    card = subject.fields("node", "card")
    if card["card"].absent:
        card["card"].missing("write the index of the card, from 0")
    node = card["node"].text()
    index = card["card"].integer(0, least=0, most=max(fleet.get(node, 1) - 1, 0))
    what = EventEntry(at, "unhealthy" if happening[0] == "unhealthy" else "healthy", node, index)
    return _of(card["node"], fleet, "node", what)


def _of(field: Field, known: Collection[str], kind: str, event: EventEntry) -> EventEntry | None:
    if event.name in known:
        return event
    field.wrong(f"no such {kind}; {_close(event.name, known)}")
    return None


def _close(text: str, known: Collection[str]) -> str:
    """What may have been meant; only a few are looked at, for a fleet has many names."""
    some = list(known)[:2000]
    if close := difflib.get_close_matches(text, some, n=1):
        return f"did you mean {close[0]}?"
    shown = ", ".join(some[:5])
    return f"there are {shown}{', …' if len(some) > 5 else ''}" if some else "there is none"
