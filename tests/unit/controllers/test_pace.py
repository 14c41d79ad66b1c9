"""The first go is at once; what follows in the window waits for its end."""

import anyio

from gpustack_ctl.controllers.pace import Pace


async def test_the_first_go_is_at_once_and_the_next_waits_for_the_end_of_the_window() -> None:
    pace = Pace(0.05)
    assert pace.early("a") == 0
    pace.went("a")
    early = pace.early("a")
    assert 0 < early <= 0.05
    assert pace.early("b") == 0, "another key has a pace of its own"
    await anyio.sleep(early)
    assert pace.early("a") == 0


def test_a_forgotten_key_starts_anew() -> None:
    pace = Pace(60)
    pace.went("a")
    pace.forget("a")
    assert pace.early("a") == 0


def test_a_key_that_never_succeeded_has_no_pace_to_keep() -> None:
    pace = Pace(60)
    assert pace.early("a") == 0
    assert pace.early("a") == 0
