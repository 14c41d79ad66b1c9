"""The second agent of a node does not start."""

import os
import subprocess
import sys

import pytest

from gpustack_ctl.agent.one_per_node import AgentRunningError, only_agent

HOLD = """
import sys, time
from pathlib import Path
from gpustack_ctl.agent.one_per_node import only_agent
with only_agent(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_is_told_who_the_first_is(tmp_path):
    first = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(AgentRunningError, match=f"pid {first.pid}"), only_agent(tmp_path):
            pass
    finally:
        first.kill()
        first.wait()

    with only_agent(tmp_path):
        assert (tmp_path / "gpustack-node-agent.lock").read_text() == f"{os.getpid()}\n"


def test_a_state_of_its_own_does_not_help_on_one_kubelet(tmp_path):
    with (
        only_agent(tmp_path / "a", tmp_path / "kubelet"),
        pytest.raises(AgentRunningError, match="kubelet"),
        only_agent(tmp_path / "b", tmp_path / "kubelet"),
    ):
        pass


def test_agents_of_two_nodes_do_not_meet(tmp_path):
    with only_agent(tmp_path / "a", tmp_path / "kubelet-a"), only_agent(tmp_path / "b", tmp_path / "kubelet-b"):
        pass
