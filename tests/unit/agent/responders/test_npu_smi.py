"""Huawei's tool as a program that is really run."""

import pytest

from gpustack_ctl.agent.responders.ascend import NpuSmi, ShareFlagError


@pytest.fixture
def npu_smi(tmp_path, monkeypatch):
    """Puts a tool on the PATH that does what `script` says."""

    def put(script):
        tool = tmp_path / "npu-smi"
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return put


@pytest.mark.parametrize(
    ("chips", "shared"), [(["True"], True), (["False"], False), (["True", "True"], True), (["True", "False"], False)]
)
async def test_a_card_is_shared_once_all_its_chips_are(npu_smi, chips, shared):
    npu_smi("\n".join(f"echo 'Device-share Status : {chip}'" for chip in chips))

    assert await NpuSmi().is_set(4) is shared


async def test_the_flag_is_set_by_the_drivers_number_and_the_question_is_answered(npu_smi, tmp_path):
    npu_smi(f'read answer; echo "$answer: $*" > {tmp_path}/ran')

    await NpuSmi().set(4)

    assert (tmp_path / "ran").read_text() == "Y: set -t device-share -i 4 -d 1\n"


async def test_what_the_tool_complains_of_is_said(npu_smi):
    npu_smi("echo 'This device does not support setting device-share' >&2; exit 1")

    with pytest.raises(ShareFlagError, match="does not support"):
        await NpuSmi().set(4)


async def test_without_the_tool_the_flag_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ShareFlagError, match="npu-smi"):
        await NpuSmi().is_set(4)
