"""Switches of the environment mean the same to manager and agent."""

import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.switches import RELEASE_TERMINATED, release_terminated
from gpustack_ctl.agent.switches import switches


@pytest.mark.parametrize(
    ("text", "released"),
    [(None, True), ("", True), ("true", True), ("on", True), ("false", False), (" Off ", False), ("no", False)],
)
def test_whether_finished_pods_are_released_is_read_alike_by_both_roles(text: str | None, released: bool) -> None:
    env = {} if text is None else {RELEASE_TERMINATED: text}
    assert release_terminated(env) is released
    assert switches(env, manufacturers=manufacturers().by_key).release_terminated_pods is released
