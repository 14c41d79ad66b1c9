"""Every claim of the story holds when it went as told, and falls when its part of it did not."""

from dataclasses import replace

import pytest

from gpustack_ctl.demo.story import Left, Outcome
from gpustack_ctl.demo.verdict import judge
from tests.unit.demo.story import AS_TOLD, CAST, HELD, NODE, PASSED, VARIABLE, ending, row, seen, with_ending

HOLD = "gate 3 held late before it let it pass, and names the node"
SUMS = "the credits and the node's totals would have sufficed for late"
LEDGER = "the ledger holds exactly the cards of the running Pods"


def fallen(outcome: Outcome, *, node: str = NODE) -> list[str]:
    """The claims that do not hold."""
    findings = judge(outcome, CAST, node=node, visible_devices=VARIABLE)
    return [finding.claim for finding in findings if not finding.holds]


def test_a_story_that_went_as_told_holds_in_every_claim() -> None:
    assert fallen(AS_TOLD) == []
    assert len(judge(AS_TOLD, CAST, node=NODE, visible_devices=VARIABLE)) == 13


@pytest.mark.parametrize(
    ("outcome", "claim"),
    [
        (with_ending(half_b=ending("half-b", "GPU-1")), "half-a and half-b run on one card"),
        (with_ending(half_a=ending("half-a"), half_b=ending("half-b")), "half-a and half-b run on one card"),
        (with_ending(share=ending("share", "GPU-1")), "share holds two distinct cards"),
        (with_ending(share=ending("share", "GPU-1", "GPU-1")), "share holds two distinct cards"),
        (with_ending(whole=ending("whole", "GPU-2")), "whole holds the last free card"),
        (with_ending(whole=ending("whole", "GPU-3", "GPU-4")), "whole holds the last free card"),
        (
            with_ending(late=ending("late", "GPU-3", seen=(PASSED,))),
            HOLD,
        ),
        (
            with_ending(late=ending("late", "GPU-3", seen=(HELD,))),
            HOLD,
        ),
        (
            with_ending(late=ending("late", "GPU-3", seen=(seen(3, "held", "no room"), PASSED))),
            HOLD,
        ),
        (
            with_ending(late=ending("late", "GPU-1", seen=(HELD, PASSED))),
            "late runs on the card that whole let go",
        ),
        (with_ending(wrong=ending("wrong", env={})), "gate 1 refused wrong and names the field"),
        (
            with_ending(wrong=ending("wrong", env={}, seen=(seen(1, "refused", "no"),))),
            "gate 1 refused wrong and names the field",
        ),
        (
            with_ending(half_a=ending("half-a", "GPU-0", env={VARIABLE: "GPU-0,GPU-1"})),
            "the container of half-a sees its cards and no others",
        ),
        (
            with_ending(whole=ending("whole", "GPU-3", env={})),
            "the container of whole sees its cards and no others",
        ),
        (replace(AS_TOLD, left=Left(credits=0, cards=10**7)), SUMS),
        (replace(AS_TOLD, left=Left(credits=10**7, cards=0)), SUMS),
        (replace(AS_TOLD, cards=AS_TOLD.cards[1:]), LEDGER),
        (replace(AS_TOLD, cards=[*AS_TOLD.cards, row("GPU-4", 1, 1)]), LEDGER),
    ],
)
def test_a_claim_falls_with_its_part_of_the_story(outcome: Outcome, claim: str) -> None:
    assert claim in fallen(outcome)


def test_the_order_of_devices_in_the_environment_does_not_matter() -> None:
    assert fallen(with_ending(share=ending("share", "GPU-1", "GPU-2", env={VARIABLE: "GPU-2,GPU-1"}))) == []


def test_a_finding_says_what_was_seen() -> None:
    outcome = with_ending(half_b=ending("half-b", "GPU-1"))
    first = judge(outcome, CAST, node=NODE, visible_devices=VARIABLE)[0]
    assert first.saw == "half-a: GPU-0; half-b: GPU-1"
