"""The controllers' stage, and the commands as a person runs them."""

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import orjson
import pytest

from gpustack_ctl.localcluster import LocalCluster
from tests.integration.controllers.conftest import kube, managed, stage

__all__ = ["kube", "managed", "stage"]


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return orjson.loads(self.out)


Command = Callable[..., Awaitable[Ran]]


@pytest.fixture
def command(control_plane: LocalCluster) -> Command:
    """`gpustack-ctl …` against the control plane, as a process of its own."""

    async def run(*arguments: str) -> Ran:
        where = ["--kubeconfig", str(control_plane.kubeconfig)]
        with anyio.fail_after(60):
            ended = await anyio.run_process([sys.executable, "-m", "gpustack_ctl", *arguments, *where], check=False)
        return Ran(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    return run
