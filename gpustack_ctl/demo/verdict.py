"""What the story must prove, claim by claim, judged from what was read back."""

from dataclasses import dataclass

from gpustack_ctl.accel.units import M, percentage_units
from gpustack_ctl.demo.pods import Cast
from gpustack_ctl.demo.story import Ending, Left, Outcome


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim, whether it holds, and what was seen."""

    claim: str
    holds: bool
    saw: str


def judge(outcome: Outcome, cast: Cast, *, node: str, visible_devices: str) -> list[Finding]:
    """Every claim of the story; it happened only if all of them hold.

    `visible_devices` names the variable by which the manufacturer's runtime is told its devices.
    """
    part = outcome.endings
    half_a, half_b, share, whole = (part[role.name] for role in (cast.half_a, cast.half_b, cast.share, cast.whole))
    late, wrong = part[cast.late.name], part[cast.wrong.name]
    everyone = [half_a, half_b, share, whole]
    return [
        _same_card(half_a, half_b),
        Finding("share holds two distinct cards", len(share.cards) == len(set(share.cards)) == 2, _held(share)),
        Finding(
            "whole holds the last free card",
            len(whole.cards) == 1 and not set(whole.cards) & {card for e in everyone[:3] for card in e.cards},
            _held(whole),
        ),
        _sums_sufficed(outcome.left),
        _late_was_held(late, node),
        Finding("late runs on the card that whole let go", late.cards == whole.cards, _held(late)),
        _wrong_was_refused(wrong, next(iter(cast.wrong.asks))),
        *(_sees_its_cards(ending, visible_devices) for ending in [*everyone, late]),
        _adds_up(outcome, [half_a, half_b, share, late]),
    ]


def _same_card(half_a: Ending, half_b: Ending) -> Finding:
    one = len(half_a.cards) == 1 and half_a.cards == half_b.cards
    return Finding("half-a and half-b run on one card", one, f"{_held(half_a)}; {_held(half_b)}")


def _late_was_held(late: Ending, node: str) -> Finding:
    held, passed = late.record.answered(3, "held"), late.record.answered(3, "passed")
    message = held.answer.message if held else "never held"
    in_order = held is not None and passed is not None and held.seconds < passed.seconds
    return Finding("gate 3 held late before it let it pass, and names the node", in_order and node in message, message)


def _sums_sufficed(left: Left) -> Finding:
    """Late wants half a card; only a look at each card shows that no half is there."""
    enough = min(left.credits, left.cards) >= percentage_units(50)
    saw = f"{left.credits / M:g} cards left in credits, {left.cards / M:g} on the node"
    return Finding("the credits and the node's totals would have sufficed for late", enough, saw)


def _wrong_was_refused(wrong: Ending, key: str) -> Finding:
    refused = wrong.record.answered(1, "refused")
    message = refused.answer.message if refused else f"it is {wrong.record.phase}"
    return Finding("gate 1 refused wrong and names the field", refused is not None and f"[{key}]" in message, message)


def _sees_its_cards(ending: Ending, variable: str) -> Finding:
    seen = ending.env.get(variable, "")
    holds = sorted(seen.split(",")) == sorted(ending.cards) if variable else bool(ending.cards)
    return Finding(f"the container of {ending.record.name} sees its cards and no others", holds, f"{variable}={seen}")


def _adds_up(outcome: Outcome, holders: list[Ending]) -> Finding:
    """The ledger's held cards are the cards of the Pods that still run, and nothing else."""
    held = {row["id"] for row in outcome.cards if row.get("allocated")}
    expected = {card for ending in holders for card in ending.cards}
    return Finding("the ledger holds exactly the cards of the running Pods", held == expected, ", ".join(sorted(held)))


def _held(ending: Ending) -> str:
    return f"{ending.record.name}: {', '.join(ending.cards) or 'no card'}"
