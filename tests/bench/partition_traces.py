"""Seeded traces of partitions that come and go, served by ours and by the naive choice: who turns fewer away.

The naive choice is the first card that has room and the lowest free slice on it. Both see the same requests at the same
moments; a request that finds no room is turned away for good, so what was accepted is the quality of the choice.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpustack_ctl.accel.cards import Card, NodeCards, PodKey, state_of
from gpustack_ctl.accel.families import Family, Mode
from gpustack_ctl.accel.geometry import Profile, free_placements
from gpustack_ctl.accel.mig_models import mig_profiles
from gpustack_ctl.accel.placement import Choice, choose, with_choices
from gpustack_ctl.accel.refusals import Refusal
from gpustack_ctl.accel.requests import ContainerDemand

MODELS = ("a100-sxm4-40gb", "a100-sxm4-80gb", "a30", "h100-sxm5-80gb", "h200-sxm-141gb")

#: How often each size is asked for, by compute slices. A model without a size never sees it.
MIXES: Mapping[str, Mapping[int, int]] = {
    "every size alike": {1: 1, 2: 1, 3: 1, 4: 1, 7: 1},
    "mostly small": {1: 4, 2: 2, 3: 1, 4: 1},
    "1g and 4g alike": {1: 1, 4: 1},
    "1g and 3g alike": {1: 1, 3: 1},
}

Chooser = Callable[[ContainerDemand, NodeCards], Choice | None]


@dataclass(frozen=True, slots=True)
class Trace:
    """One node's requests: profile, arrival and end, in order of arrival; one arrives per unit of time."""

    cards: NodeCards
    requests: Sequence[tuple[Profile, float]]


@dataclass(slots=True)
class Tally:
    """Partitions accepted by each."""

    ours: int = 0
    naive: int = 0

    @property
    def ratio(self) -> float:
        return self.ours / self.naive


def compare(model: str, mix: Mapping[int, int], *, seeds: int, requests: int = 400, cards: int = 4) -> Tally:
    """Both choosers over the same traces. Partitions live so long that the cards are full most of the time."""
    tally = Tally()
    for seed in range(seeds):
        trace = a_trace(model, mix, seed=seed, requests=requests, cards=cards)
        tally.ours += accepted(trace, ours)
        tally.naive += accepted(trace, naive)
    return tally


def a_trace(model: str, mix: Mapping[int, int], *, seed: int, requests: int, cards: int) -> Trace:
    dice = random.Random(seed)
    profiles = mig_profiles(model)
    fleet = (
        Card(f"GPU-{index}", index, model, "nvidia", 81920, partition_count=7, profiles=profiles)
        for index in range(cards)
    )
    wanted = [profile for profile in profiles if mix.get(profile.compute_slices)]
    weights = [mix[profile.compute_slices] for profile in wanted]
    drawn = dice.choices(wanted, weights, k=requests)
    lives = (dice.expovariate(1 / (_LIFE_PER_CARD * cards)) for _ in drawn)
    return Trace(NodeCards("node", tuple(map(state_of, fleet))), list(zip(drawn, lives, strict=True)))


#: Units of time a partition lives for each card of the node.
_LIFE_PER_CARD = 3


def accepted(trace: Trace, chooser: Chooser) -> int:
    cards, running, count = trace.cards, dict[str, float](), 0
    for now, (profile, life) in enumerate(trace.requests):
        for uid in [uid for uid, end in running.items() if end <= now]:
            cards = cards.without(uid)
            del running[uid]
        chosen = chooser(_demand(profile), cards)
        if chosen is None:
            continue
        pod = PodKey("default", f"pod-{now}", f"uid-{now}")
        cards = with_choices(cards, pod, [chosen])
        running[pod.uid] = now + life
        count += 1
    return count


def ours(demand: ContainerDemand, cards: NodeCards) -> Choice | None:
    chosen = choose(demand, cards)
    return None if isinstance(chosen, Refusal) else chosen[0]


def naive(demand: ContainerDemand, cards: NodeCards) -> Choice | None:
    for state in cards.states:
        profile = state.card.profile(demand.profile or "")
        if profile and (free := free_placements(profile, state.occupied)):
            return Choice("main", state.card, Mode.PARTITIONED, demand.units, profile.name, free[0])
    return None


def _demand(profile: Profile) -> ContainerDemand:
    return ContainerDemand("main", "running", Family.PARTITIONED, "nvidia", 1, 1, profile.name)
