"""The demonstration from curtain to curtain: site, stage, story, verdict."""

import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from gpustack_ctl.demo.pods import cast_for
from gpustack_ctl.demo.report import Told, document
from gpustack_ctl.demo.screen import Screen
from gpustack_ctl.demo.sites import Site, existing_site, local_site
from gpustack_ctl.demo.stage import INVENTORY, Stage, set_up
from gpustack_ctl.demo.story import tell
from gpustack_ctl.demo.timeline import Timeline
from gpustack_ctl.demo.verdict import judge
from gpustack_ctl.demo.waiting import StepError


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asked for; see `gpustack-ctl demo --help`."""

    kubeconfig: str | None = None
    context: str | None = None
    node: str | None = None
    kubelet_dir: Path = Path("/var/lib/kubelet")
    webhook_url: str | None = None
    install_kueue: bool = False
    inventory: Path | None = None
    once: bool = False
    keep: bool = False


async def play(options: Options) -> dict[str, Any]:
    """Tell the story and return its document. A story that fails is a document too; only the stage itself may raise."""
    screen, told, started = Screen(), Told(), time.monotonic()
    async with _site(options, screen) as site:
        told.logs = site.logs
        async with set_up(site, inventory=options.inventory or INVENTORY, step=screen.step) as stage:
            try:
                await _perform(stage, told, screen)
            except StepError as failure:
                told.failure = failure
            told.seconds = time.monotonic() - started
            screen.conclude(told)
            if not options.once and told.failure is None:
                await _stay(screen)
        if options.keep:
            screen.console.print(f"the cluster stays up: export KUBECONFIG={site.kubeconfig}")
    return document(told)


def _site(options: Options, screen: Screen) -> AbstractAsyncContextManager[Site]:
    if options.kubeconfig is None and options.context is None:
        return local_site(keep=options.keep, progress=screen.progress)
    return existing_site(
        kubeconfig=options.kubeconfig,
        context=options.context,
        node=options.node,
        kubelet_dir=options.kubelet_dir,
        webhook_url=options.webhook_url,
        install_kueue=options.install_kueue,
    )


async def _perform(stage: Stage, told: Told, screen: Screen) -> None:
    told.cast = cast_for(stage.manufacturer)
    told.timeline = Timeline(
        pods=stage.pods,
        workloads=stage.workloads,
        table=stage.table,
        clock=time.monotonic,
        changed=screen.changed,
    )
    with screen.show(told.timeline, told.cast, lambda: stage.cards):
        screen.step("sending the Pods")
        try:
            told.outcome = await tell(stage, told.cast, told.timeline)
        finally:
            told.cards = stage.cards
    told.findings = judge(told.outcome, told.cast, node=stage.node, visible_devices=stage.manufacturer.visible_devices)


async def _stay(screen: Screen) -> None:
    """Everything goes on running until the person has seen enough."""
    screen.console.print("both roles go on running; Ctrl-C ends it")
    await anyio.sleep_forever()
