"""One gate's answer, and all of them together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Answered = Literal["passed", "refused", "held", "waiting", "unknown"]
"""`unknown` where a gate was not asked, or left nothing from which its answer could be read."""

GATES: Mapping[int, str] = {
    1: "Pod webhook",
    2: "Kueue credits",
    3: "AdmissionCheck",
    4: "scheduler and kubelet",
    5: "device plugin",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One gate's answer: what it looked at, what it said, why, and what would have to change for it to say yes."""

    gate: int
    saw: str
    answered: Answered
    message: str = ""
    change: str = ""

    @property
    def name(self) -> str:
        return GATES[self.gate]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All five answers about one object.

    `plan` is the cards that gate 3 set aside: a Pod's plan annotation as it stands, for a Workload one by PodSet. `pin`
    is the placement that gate 3 asked for; None where there is none.
    """

    kind: str
    namespace: str
    name: str
    answers: Sequence[Answer]
    pin: Any = None
    plan: Any = None


def together(gate: int, answers: Mapping[str, Answer]) -> Answer:
    """One answer for several Pods, by their names: the worst of theirs, and how many had it."""
    if len(answers) == 1:
        return next(iter(answers.values()))
    worst = min((answer.answered for answer in answers.values()), key=_WORST.index)
    such = {name: answer for name, answer in answers.items() if answer.answered == worst}
    saw = "; ".join(dict.fromkeys(answer.saw for answer in answers.values() if answer.saw))
    message = f"{len(such)} of {len(answers)} Pods: {_listed(such)}"
    change = "; ".join(dict.fromkeys(answer.change for answer in such.values() if answer.change))
    return replace(next(iter(such.values())), gate=gate, saw=saw, message=message, change=change)


def named(things: Iterable[str], *, most: int = 4) -> str:
    """Some names for a message, and how many more there are."""
    listed = list(things)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


_WORST: Sequence[Answered] = ("refused", "held", "waiting", "unknown", "passed")


def _listed(answers: Mapping[str, Answer]) -> str:
    """What was said to whom; the same words once for everybody who heard them."""
    heard: dict[str, list[str]] = {}
    for name, answer in answers.items():
        heard.setdefault(answer.message, []).append(name)
    return "; ".join(f"{named(names)}: {message}" if message else named(names) for message, names in heard.items())
