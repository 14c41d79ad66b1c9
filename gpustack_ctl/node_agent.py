"""The node agent: detects this node's cards, serves them to the kubelet, keeps their ledger.

Read `run` as a table of contents. Nothing is served before what a former process promised is known again, and nothing
is promised that is not on this node's disk.
"""

from __future__ import annotations

import anyio
import structlog
from anyio.abc import TaskStatus

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.agent.allocate import Allocator
from gpustack_ctl.agent.config import BadConfigError, NodeAgentConfig
from gpustack_ctl.agent.detectors.detector import Detector, inventories
from gpustack_ctl.agent.hardware import open_hardware
from gpustack_ctl.agent.hint import Hinter
from gpustack_ctl.agent.identify import Identifier
from gpustack_ctl.agent.journal import Journal
from gpustack_ctl.agent.ledger_faults import LedgerFaults
from gpustack_ctl.agent.node_ledger import NodeLedger
from gpustack_ctl.agent.node_lock import NodeLock
from gpustack_ctl.agent.one_per_node import AgentRunningError, only_agent
from gpustack_ctl.agent.plugin import DevicePlugin
from gpustack_ctl.agent.plugins import Plugins
from gpustack_ctl.agent.pod_records import PodRecords
from gpustack_ctl.agent.pod_resources import PodResources
from gpustack_ctl.agent.publication import FIELD_MANAGER, Publication
from gpustack_ctl.agent.reclaim import Reclaim
from gpustack_ctl.agent.recovery import recover
from gpustack_ctl.agent.reservations import Reservations
from gpustack_ctl.agent.responders import host_states, responders
from gpustack_ctl.agent.serving import PluginServer
from gpustack_ctl.agent.switches import switches
from gpustack_ctl.agent.tokens import PluginResource
from gpustack_ctl.agent.turns import Turns
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.events import Events
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.resources import DEVICES, NODES, PODS
from gpustack_ctl.telemetry.health import Health

__all__ = ["AgentRunningError", "BadConfigError", "NodeAgentConfig", "run"]

log = structlog.get_logger()

_SWEEP_SECONDS = 60.0


async def run(
    config: NodeAgentConfig,
    kube: Kube,
    informers: Informers,
    health: Health,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Run until cancelled; started once the device plugins listen.

    Raises before that: BadConfigError or DocumentError for what it was told, AgentRunningError when it is the second.
    """
    table = manufacturers(config.env)
    turned = switches(config.env, manufacturers=table.by_key)
    hardware = open_hardware(config, table=table, switches=turned)

    own = f"metadata.name={config.node_name}"
    nodes, devices = informers.of(NODES, field_selector=own), informers.of(DEVICES, field_selector=own)
    pods = informers.of(PODS, field_selector=f"spec.nodeName={config.node_name}")

    with (
        only_agent(config.state_dir, config.kubelet_dir / "device-plugins"),
        PodResources(config.kubelet_dir) as pod_resources,
    ):
        lock = NodeLock()
        events = Events(kube, FIELD_MANAGER)
        node = {"apiVersion": NODES.api_version, "kind": NODES.kind, "metadata": {"name": config.node_name}}
        reservations = Reservations(Journal(config.state_dir / "journal"))
        ledger = NodeLedger(
            node_name=config.node_name,
            pods=pods,
            reservations=reservations,
            table=table,
            release_terminated=turned.release_terminated_pods,
        )
        identifier = Identifier(
            pods=pods,
            kube=kube,
            reservations=reservations,
            pod_resources=pod_resources if turned.identify_by_kubelet else None,
        )
        turns = Turns(ledger=ledger, identifier=identifier, pods=pods, reservations=reservations, table=table)
        hinter = Hinter(turns, lock=lock)
        by_manufacturer = responders(table, switches=turned, state_dir=config.state_dir)
        allocator = Allocator(
            turns,
            reservations=reservations,
            partitions=hardware.partitions,
            responders=by_manufacturer,
            events=events,
            node=node,
            lock=lock,
            slice_gate=turned.sliced_allocate_gate,
        )

        def serve(resource: PluginResource) -> PluginServer:
            plugin = DevicePlugin(
                resource, ledger=ledger, reservations=reservations, hinter=hinter, allocator=allocator
            )
            return PluginServer(plugin, kubelet_dir=config.kubelet_dir)

        plugins = Plugins(ledger=ledger, table=table, serve=serve)
        records = PodRecords(pods=pods, reservations=reservations, kube=kube)
        faults = LedgerFaults(pods=pods, events=events, node=node)
        publication = Publication(ledger=ledger, nodes=nodes, devices=devices, kube=kube, faults=faults)
        reclaim = Reclaim(
            pods=pods,
            reservations=reservations,
            partitions=hardware.partitions,
            slices=host_states(table, by_manufacturer),
            kube=kube,
            work_dir=config.state_dir / "pods",
            lock=lock,
        )
        detected = anyio.Event()
        health.require("cards detected", detected.is_set)
        health.require("device plugins registered", lambda: plugins.registered)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_follow, hardware.detector, ledger, detected)
            await detected.wait()
            await pods.wait_synced()
            await recover(reservations=reservations, ledger=ledger, pods=pods, pod_resources=pod_resources, table=table)
            await reclaim.sweep()

            tasks.start_soon(events.run)
            tasks.start_soon(records.run)
            tasks.start_soon(publication.run)
            tasks.start_soon(reclaim.run)
            tasks.start_soon(_sweep, reclaim)
            await tasks.start(plugins.run)
            task_status.started()


async def _follow(detector: Detector, ledger: NodeLedger, detected: anyio.Event) -> None:
    """Keep the ledger's cards as the detector finds them."""
    async for inventory in inventories(detector):
        ledger.inventory = inventory
        detected.set()
        cards = sum(len(model.cards) for model in inventory.models)
        log.info("cards detected", cards=cards, models=[model.akey for model in inventory.models])


async def _sweep(reclaim: Reclaim) -> None:
    while True:
        await anyio.sleep(_SWEEP_SECONDS)
        await reclaim.sweep()
