"""How long a Workload waits before nodes are kept for it, as the environment says it."""

import pytest

from gpustack_ctl.controllers.parking import RESERVE_AFTER_SECONDS
from gpustack_ctl.manager import HOLD_RESERVE_AFTER, reserve_after


def test_it_is_five_minutes_unless_said_otherwise() -> None:
    assert reserve_after({}) == RESERVE_AFTER_SECONDS == 300
    assert reserve_after({HOLD_RESERVE_AFTER: "7.5"}) == 7.5


@pytest.mark.parametrize("text", ["5m", "-1", "nan", "inf", "soon"])
def test_what_is_no_number_of_seconds_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=f"{HOLD_RESERVE_AFTER} is '{text}': write a number of seconds"):
        reserve_after({HOLD_RESERVE_AFTER: text})
