"""The command's work: look once, or go on looking."""

import os
from contextlib import nullcontext
from time import monotonic

import anyio
from rich.console import Console
from rich.live import Live

from gpustack_ctl.accel.families import Manufacturers, manufacturers
from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.controllers.verdicts import HELD
from gpustack_ctl.explain.snapshot import snapshot
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.informer import Informer, Informers
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import EVENTS
from gpustack_ctl.top.picture import Picture, picture
from gpustack_ctl.top.tables import tables

_HOLDS = f"reason={HELD}"
_PAUSE_SECONDS = 0.5
"""Between two drawings, which take at most half of the time: a burst of changes is one of them."""


async def look(kubeconfig: str | None = None, context: str | None = None) -> Picture:
    """The fleet as it is now; raises KubeError."""
    async with Kube.connect(kubeconfig=kubeconfig, context=context) as kube:
        sources = await snapshot(kube)
        holds = await kube.list(EVENTS, field_selector=_HOLDS)
        return picture(sources, holds=holds, table=manufacturers(os.environ))


async def watch(console: Console, kubeconfig: str | None = None, context: str | None = None) -> None:
    """Draw the fleet and draw it again whenever it changes, until cancelled; raises KubeError if it cannot begin.

    On a terminal it is drawn in place; anywhere else one picture follows the other.
    """
    async with Kube.connect(kubeconfig=kubeconfig, context=context) as kube:
        await snapshot(kube)  # a cluster that cannot be reached, or lacks a kind, is told at once instead of retried
        informers = Informers(kube)
        sources, holds = Sources.of(informers), informers.of(EVENTS, field_selector=_HOLDS)
        async with anyio.create_task_group() as tasks:
            await tasks.start(informers.run)
            await informers.wait_synced()
            await _redraw(console, sources, holds, manufacturers(os.environ))


async def _redraw(console: Console, sources: Sources, holds: Informer, table: Manufacturers) -> None:
    changed = anyio.Event()

    def note(old: Obj | None, new: Obj | None) -> None:  # noqa: ARG001 - what changed is read when it is drawn
        changed.set()

    watched = (sources.devices, sources.pods, sources.instance_types, sources.workloads, sources.local_queues, holds)
    for informer in watched:
        informer.subscribe(note)
    drawn: Picture | None = None
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    with live or nullcontext():
        while True:
            changed, started = anyio.Event(), monotonic()
            seen = picture(sources, holds=holds.list(), table=table)
            if seen != drawn:
                live.update(tables(seen), refresh=True) if live else console.print(tables(seen))
                drawn = seen
            drawing = monotonic() - started
            await changed.wait()
            await anyio.sleep(max(_PAUSE_SECONDS, drawing))
