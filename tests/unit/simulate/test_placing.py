"""The index against the rules: what is found quickly is what asking `accel` about every node finds."""

from collections.abc import Sequence
from random import Random

import pytest

from gpustack_ctl.accel.cards import Card, NodeCards, PodKey, state_of
from gpustack_ctl.accel.families import Family
from gpustack_ctl.accel.feasibility import Demand, Plan, fit
from gpustack_ctl.accel.mig_models import mig_profiles
from gpustack_ctl.accel.placement import with_choices
from gpustack_ctl.simulate.arrivals import arrivals
from gpustack_ctl.simulate.placing import Fleet, Placed, Waits, place
from gpustack_ctl.simulate.quota import Quota, pools_of
from gpustack_ctl.simulate.requests import Request, Requests
from gpustack_ctl.simulate.scenario import NodesEntry, RandomEntry, Scenario
from tests.unit.simulate.builders import TABLE

AKEY = "nvidia-a100-sxm4-80gb"
SOMEBODY = PodKey("", "somebody", "")


def cards(count: int, *, mig: bool = False) -> tuple[Card, ...]:
    profiles = mig_profiles("a100-sxm4-80gb") if mig else ()
    return tuple(
        Card(
            id=f"gpu-{index}",
            index=index,
            group="a100-sxm4-80gb",
            manufacturer="nvidia",
            memory_mib=81920,
            slots=0 if mig else 128,
            cores_overcommit=True,
            partition_count=7 if mig else 0,
            profiles=profiles,
        )
        for index in range(count)
    )


FLEET = (NodesEntry(("a", "b", "c"), cards(2)), NodesEntry(("d",), cards(3)), NodesEntry(("m",), cards(1, mig=True)))


def drawn(seed: int, requests: Requests, *, pods: tuple[tuple[int, float], ...] = ((1, 1.0),)) -> list[Request]:
    """A storm of all families."""
    random = RandomEntry(
        seed=seed,
        requests=40,
        rate=1.0,
        mean_duration=1.0,
        mix=tuple((family, 1.0) for family in Family),
        sizes={
            Family.EXCLUSIVE: ((1, 2.0), (2, 1.0), (3, 1.0)),
            Family.SHARED: ((1, 1.0), (2, 1.0)),
            Family.SLICED: ((15, 1.0), (40, 1.0), (60, 1.0)),
            Family.PARTITIONED: (("1g.10gb", 1.0), ("2g.20gb", 1.0), ("3g.40gb", 1.0)),
        },
        pod_sets=((1, 1.0),),
        pods=pods,
        pool=AKEY,
    )
    return [arrival.request for arrival in arrivals(Scenario(FLEET, random=random), requests, table=TABLE)]


class Oracle:
    """The same fleet without index, shared states or memory: accel is asked about every node, every time."""

    def __init__(self, entries: Sequence[NodesEntry]) -> None:
        self.nodes = {
            name: NodeCards(name, tuple(map(state_of, entry.cards))) for entry in entries for name in entry.names
        }

    def takers(self, request: Request) -> dict[str, Plan]:
        """Every node that would take the whole request, and how."""
        [role] = request.roles
        found = {}
        for name in self.nodes:
            verdict = fit([Demand(role.name, role.need.demand, role.pods, request.akey, name)], self.nodes)
            if isinstance(verdict, Plan):
                found[name] = verdict
        return found

    def take(self, plan: Plan) -> None:
        for pod in plan.pods:
            self.nodes[pod.node] = with_choices(self.nodes[pod.node], SOMEBODY, pod.choices)


@pytest.mark.parametrize("seed", range(12))
def test_the_index_finds_a_node_exactly_when_some_node_takes_the_request(seed: int) -> None:
    quota = Quota({name: entry.cards for entry in FLEET for name in entry.names}, TABLE)
    fleet, oracle = Fleet(FLEET, quota), Oracle(FLEET)
    draw, running = Random(seed), []
    for request in drawn(seed, Requests(pools_of([entry.cards for entry in FLEET], TABLE), TABLE)):
        takers, found = oracle.takers(request), place(request, fleet, quota)
        if isinstance(found, Waits):
            assert not takers, f"{found.message}, but {list(takers)} would take it"
            continue
        [(node, answer)] = found.taken
        plan = takers[node.name]
        assert [choice.card.id for pod in plan.pods for choice in pod.choices] == list(answer.cards)
        oracle.take(plan)
        fleet.change(node, answer.after, grew=False)
        running.append((found, plan))
        if draw.random() < 0.5:
            give_back(running.pop(draw.randrange(len(running))), fleet, oracle)


@pytest.mark.parametrize("seed", range(8))
def test_several_pods_are_placed_only_where_accel_places_them_together(seed: int) -> None:
    quota = Quota({name: entry.cards for entry in FLEET for name in entry.names}, TABLE)
    fleet, oracle = Fleet(FLEET, quota), Oracle(FLEET)
    requests = Requests(pools_of([entry.cards for entry in FLEET], TABLE), TABLE)
    for request in drawn(seed, requests, pods=((2, 1.0), (3, 1.0))):
        takers, found = oracle.takers(request), place(request, fleet, quota)
        if isinstance(found, Waits):
            assert not takers
            continue
        if len(found.taken) == 1:
            assert found.taken[0][0].name in takers
        else:
            alike = [name for name in takers if fleet.by_name[name].flavors == found.taken[0][0].flavors]
            assert not alike, "it was split although a node of the flavor takes it whole"
        for node, answer in found.taken:
            for held in answer.taken:
                oracle.nodes[node.name] = oracle.nodes[node.name].with_holding(
                    node.kind.cards[held.position].id, held.holding
                )
            fleet.change(node, answer.after, grew=False)
        assert all(state.charged <= 1_600_000 for node in oracle.nodes.values() for state in node.states)


def give_back(ended: tuple[Placed, Plan], fleet: Fleet, oracle: Oracle) -> None:
    found, plan = ended
    for node, answer in found.taken:
        fleet.change(node, node.kind.without(node.state, answer.taken), grew=True)
    for pod in plan.pods:
        for choice in pod.choices:
            oracle.nodes[pod.node] = without_one(oracle.nodes[pod.node], choice.card.id, choice.holding(SOMEBODY))


def without_one(node: NodeCards, card: str, holding: object) -> NodeCards:
    states = []
    for state in node.states:
        holdings = list(state.holdings)
        if state.card.id == card:
            holdings.remove(holding)  # type: ignore[arg-type]
        states.append(state_of(state.card, holdings))
    return NodeCards(node.node, tuple(states))
