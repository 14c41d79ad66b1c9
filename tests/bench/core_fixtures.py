"""Inputs of the speeds that the ledger, the views and the check promise; each a plain function of its sizes."""

from typing import Any

from gpustack_ctl.accel.cards import Card, CardState, NodeCards, PodKey, state_of
from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.feasibility import Demand
from gpustack_ctl.accel.inflight import Inflight
from gpustack_ctl.accel.ledger import Ledger, status_of
from gpustack_ctl.accel.placement import choose, with_choices
from gpustack_ctl.accel.refusals import Refusal
from tests.unit.accel.builders import (
    A10G,
    a_slice,
    card,
    choice,
    demand,
    held,
    pod,
    wants_share,
    wants_slice,
    wants_whole,
)


def bench_rebuild(cards: int = 16, pods: int = 200) -> tuple[tuple[Card, ...], list[dict[str, Any]]]:
    """A node's cards and its Pods, each with two containers, one of which holds a small slice."""
    fleet = tuple(card(index) for index in range(cards))
    objects = []
    for number in range(pods):
        of = fleet[number % cards]
        record = {"main": [choice(of, Mode.SLICED, 100_000 + number)]}
        objects.append(pod(record, asks={"main": "nvidia.com/gpu.sliced", "log": "memory"}))
    return fleet, objects


def bench_views(nodes: int = 1000, cards: int = 8) -> dict[str, tuple[CardState, ...]]:
    """The cards of a pool's nodes, held in turn by nobody, by slices and by shares."""
    return {f"node-{number}": _mixed(number, cards) for number in range(nodes)}


def bench_devices(nodes: int = 1000, cards: int = 8) -> list[dict[str, Any]]:
    """The same cards as the `Devices` that the agents of those nodes publish."""
    return [_devices(name, states) for name, states in bench_views(nodes, cards).items()]


def pod_spec() -> dict[str, Any]:
    """A Pod as users write it: a container that asks for half a card in MiB, one that asks for none."""
    env = [{"name": f"VARIABLE_{at}", "value": "some value of some length"} for at in range(12)]
    asked = {"nvidia.com/gpu.sliced": "1", "nvidia.com/gpu.sliced.memory-mib": "12288", "cpu": "4", "memory": "16Gi"}
    return {
        "containers": [
            {"name": "main", "image": "registry.example.com/model:1", "env": env, "resources": {"limits": asked}},
            {"name": "log", "image": "registry.example.com/log:1", "env": env, "resources": {"limits": {"cpu": "1"}}},
        ],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }


def bench_fit(cards: int = 8) -> tuple[list[Demand], dict[str, NodeCards]]:
    """The usual verdict: a few Pods of one PodSet on a node that is half taken."""
    node = NodeCards("node-1", _mixed(1, cards))
    return [demand(wants_slice(30), pods=3)], {"node-1": node}


def bench_fit_several() -> tuple[list[Demand], dict[str, NodeCards]]:
    """Two roles over four nodes, whole cards and slices."""
    nodes = {f"node-{n}": NodeCards(f"node-{n}", tuple(state_of(card(i)) for i in range(8))) for n in range(4)}
    demands = [demand(wants_whole(4), on=name, role="prefill") for name in nodes]
    demands += [demand(wants_slice(50), pods=4, on=name, role="decode") for name in nodes]
    return demands, nodes


def bench_fit_searched() -> tuple[list[Demand], dict[str, NodeCards]]:
    """A verdict that packing order alone gets wrong: eight cards to be filled exactly by slices of six sizes."""
    sizes = (45, 35, 35, 30, 30, 25)
    node = NodeCards("node-1", tuple(state_of(card(index)) for index in range(8)))
    return [demand(wants_slice(size), pods=4, role=f"{size}-{at}") for at, size in enumerate(sizes)], {"node-1": node}


def bench_fit_tight() -> tuple[list[Demand], dict[str, NodeCards]]:
    """A verdict that takes a long search: sixteen cards to be nearly filled by slices of eight sizes."""
    states = tuple(held(card(index), a_slice(index % 7 + 1)) for index in range(16))
    sizes = (51, 49, 34, 33, 32, 28, 27, 26)
    demands = [demand(wants_slice(size), pods=5, role=str(size)) for size in sizes]
    return demands, {"node-1": NodeCards("node-1", states)}


def bench_fit_hopeless() -> tuple[list[Demand], dict[str, NodeCards]]:
    """A verdict that takes a proof: room enough in sum, and no way to divide it."""
    partly = (held(card(index), a_slice(used)) for index, used in enumerate((50, 45, 15)))
    states = (*partly, *(state_of(card(index)) for index in range(3, 16)))
    wanted = ((50, 4), (45, 9), (40, 10), (30, 15))
    demands = [demand(wants_slice(size), pods=pods, role=str(size)) for size, pods in wanted]
    return demands, {"node-1": NodeCards("node-1", states)}


def bench_inflight(workloads: int = 20) -> tuple[dict[str, NodeCards], list[Inflight]]:
    """A node and the unplanned Workloads promised to it."""
    node = NodeCards("node-1", tuple(state_of(card(index)) for index in range(8)))
    return {"node-1": node}, [Inflight(f"team/w-{n}", demand(wants_slice(20))) for n in range(workloads)]


def _devices(name: str, states: tuple[CardState, ...]) -> dict[str, Any]:
    accelerators = [
        {
            "id": state.card.id,
            "index": state.card.index,
            "status": {
                "unhealthy": not state.card.healthy,
                "logicalSliced": {"count": state.card.slots, "coresPercentageOvercommit": True},
            },
        }
        for state in states
    ]
    group = {"id": "a10g", "manufacturer": "nvidia", "memory": 24576, "cores": 9216, "accelerators": accelerators}
    return {
        "metadata": {"name": name, "resourceVersion": "1"},
        "spec": {"groups": [group]},
        "status": status_of(Ledger(states)),
    }


def _mixed(number: int, cards: int) -> tuple[CardState, ...]:
    states = NodeCards(f"node-{number}", tuple(state_of(card(index)) for index in range(cards)))
    for turn, claim in enumerate((wants_slice(30), wants_slice(45), wants_share(), wants_whole())):
        if (number + turn) % 3 == 0:
            continue
        chosen = choose(claim, states, akey=A10G)
        assert not isinstance(chosen, Refusal)
        states = with_choices(states, PodKey("team", f"pod-{turn}", f"{number}-{turn}"), chosen)
    return states.states


__all__ = [
    "bench_devices",
    "bench_fit",
    "bench_fit_hopeless",
    "bench_fit_searched",
    "bench_fit_several",
    "bench_fit_tight",
    "bench_inflight",
    "bench_rebuild",
    "bench_views",
    "pod_spec",
]
