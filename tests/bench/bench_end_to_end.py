"""What a person waits for: a cluster with a Ready kubelet, and the whole demonstration. The programs are built already;
the first build of a machine takes minutes and is timed by hand."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import orjson

from gpustack_ctl.localcluster.assets import find_assets
from gpustack_ctl.localcluster.progress import Quiet

Measured = Callable[..., None]

SCRIPT = str(Path(sys.executable).with_name("gpustack-ctl"))


async def bench_local_up(measured: Measured) -> None:
    await find_assets(Quiet())
    with tempfile.TemporaryDirectory(prefix="gsb-", dir="/tmp") as state:
        up = _timed("local", "up", "--output", "json", state=state)
        down = _timed("local", "down", state=state)
    measured("local up, warm, a kubelet Ready", up[0], unit="s", goal=25)
    measured("local down", down[0], unit="s")


async def bench_demo(measured: Measured) -> None:
    await find_assets(Quiet())
    with tempfile.TemporaryDirectory(prefix="gsb-", dir="/tmp") as state:
        seconds, told = _timed("demo", "--once", "--output", "json", state=state)
    story: dict[str, Any] = orjson.loads(told)
    assert story["ok"], story.get("failure") or story["findings"]
    measured("demo --once, warm", seconds, unit="s", goal=75)
    measured("whole deleted → late admitted", story["releaseToAdmittedSeconds"], unit="s", goal=35)
    for name in ("half-a", "late"):
        gates = next(pod["gates"] for pod in story["pods"] if pod["name"] == name)
        measured(f"{name} created → its card settled", gates[-1]["seconds"], unit="s")


def _timed(*arguments: str, state: str) -> tuple[float, bytes]:
    """How long a command took, and what it printed."""
    started = perf_counter()
    env = {**os.environ, "XDG_STATE_HOME": state}
    done = subprocess.run([SCRIPT, *arguments], env=env, stdout=subprocess.PIPE, timeout=300, check=False)
    return perf_counter() - started, done.stdout
