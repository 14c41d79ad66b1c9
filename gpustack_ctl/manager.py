"""The manager: webhooks on every replica, controllers on the one that leads.

Reads like a table of contents: what must be there first, what every replica serves, and what the leader runs.
"""

import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import anyio
import structlog
from anyio.abc import TaskStatus

from gpustack_ctl.accel.families import Manufacturers, manufacturers
from gpustack_ctl.accel.profiles import DEFAULT_LEVELS, read_levels
from gpustack_ctl.accel.switches import release_terminated
from gpustack_ctl.controllers import crd_install
from gpustack_ctl.controllers.admission_check import AdmissionCheck
from gpustack_ctl.controllers.device_check import DeviceCheck
from gpustack_ctl.controllers.fleet import Fleet
from gpustack_ctl.controllers.instance_type import InstanceTypeController
from gpustack_ctl.controllers.node_capacity import NodeCapacity
from gpustack_ctl.controllers.node_fit import NodeFit
from gpustack_ctl.controllers.node_flavor import NodeFlavor
from gpustack_ctl.controllers.node_management import NodeManagement
from gpustack_ctl.controllers.node_queue import NodeQueue
from gpustack_ctl.controllers.parking import RESERVE_AFTER_SECONDS, Parking
from gpustack_ctl.controllers.pin_landing import PinLanding
from gpustack_ctl.controllers.pins import Pins
from gpustack_ctl.controllers.queue_entrance import QueueEntrance
from gpustack_ctl.controllers.rooms import Rooms
from gpustack_ctl.controllers.setting_seed import SettingSeed
from gpustack_ctl.controllers.settings import Settings
from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.controllers.stranded import Stranded
from gpustack_ctl.controllers.topology import TopologyController
from gpustack_ctl.controllers.unused_topologies import UnusedTopologies
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import Controller
from gpustack_ctl.kube.errors import AlreadyExists, KubeError, NotFound
from gpustack_ctl.kube.events import Events
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.lease import LeaderElection
from gpustack_ctl.kube.objects import is_true
from gpustack_ctl.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CRDS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from gpustack_ctl.telemetry.health import Health
from gpustack_ctl.webhooks.run import WebhookConfig, Webhooks

log = structlog.get_logger()

KUEUE = (ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES, WORKLOADS)
HOLD_RESERVE_AFTER = "GPUSTACK_HOLD_RESERVE_AFTER"
TOPOLOGY_LEVELS = "GPUSTACK_TOPOLOGY_LEVELS"
RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerConfig:
    """What a manager is started with. `namespace` is where it keeps its lease, and where nobody gets an entrance."""

    namespace: str = "gpustack-system"
    leader_elect: bool = True
    webhook: WebhookConfig = field(default_factory=WebhookConfig)


async def run(
    config: ManagerConfig,
    kube: Kube,
    informers: Informers,
    health: Health,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Run the manager until cancelled; started when its webhooks answer."""
    table = manufacturers(os.environ)
    await _until_done(_namespace, kube, config.namespace)
    await _until_done(crd_install.ensure, kube)

    webhooks = Webhooks(config.webhook, kube=kube, informers=informers, table=table)
    health.require("webhooks", lambda: webhooks.ready)

    async def lead() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(webhooks.register)
            tasks.start_soon(_control, kube, informers, table, config.namespace)

    async with anyio.create_task_group() as tasks:
        await tasks.start(webhooks.serve)
        task_status.started()
        await _election(config, kube).run(lead) if config.leader_elect else await lead()


async def _control(kube: Kube, informers: Informers, table: Manufacturers, namespace: str) -> None:
    """Every controller, once Kueue's kinds are served."""
    await _until_done(_kueue, kube)
    events = Events(kube, "gpustack-manager")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events.run)
        for controller in controllers(kube, Sources.of(informers), events, table, namespace):
            tasks.start_soon(controller.run)


def controllers(
    kube: Kube, sources: Sources, events: Events, table: Manufacturers, namespace: str
) -> tuple[Controller, ...]:
    """The controllers, in the order in which a node becomes a place to run."""
    settings = Settings(sources.settings)
    fleet = Fleet(kube=kube, sources=sources, table=table, release_terminated=release_terminated(os.environ))
    levels = topology_levels(os.environ)
    pins = Pins(kube=kube, sources=sources, settings=settings, table=table)
    rooms = Rooms(sources=sources, fleet=fleet)
    return (
        SettingSeed(kube=kube, settings=sources.settings, environ=os.environ),
        NodeManagement(kube=kube, nodes=sources.nodes, devices=sources.devices, settings=settings),
        NodeCapacity(kube=kube, nodes=sources.nodes, devices=sources.devices, table=table),
        NodeFit(kube=kube, nodes=sources.nodes, devices=sources.devices),
        TopologyController(kube=kube, nodes=sources.nodes, topologies=sources.topologies, levels=levels),
        UnusedTopologies(
            kube=kube, nodes=sources.nodes, topologies=sources.topologies, flavors=sources.flavors, levels=levels
        ),
        NodeFlavor(
            kube=kube,
            nodes=sources.nodes,
            devices=sources.devices,
            flavors=sources.flavors,
            instance_types=sources.instance_types,
            settings=settings,
        ),
        InstanceTypeController(kube=kube, sources=sources, settings=settings, events=events, table=table),
        NodeQueue(kube=kube, sources=sources, settings=settings, table=table),
        QueueEntrance(
            kube=kube,
            cluster_queues=sources.cluster_queues,
            local_queues=sources.local_queues,
            namespaces=sources.namespaces,
            own_namespace=namespace,
        ),
        DeviceCheck(kube=kube, checks=sources.checks),
        AdmissionCheck(kube=kube, sources=sources, fleet=fleet, pins=pins, events=events),
        PinLanding(workloads=sources.workloads, pins=pins),
        Stranded(sources=sources, pins=pins, rooms=rooms, events=events, table=table),
        Parking(
            sources=sources,
            settings=settings,
            pins=pins,
            rooms=rooms,
            events=events,
            table=table,
            reserve_after=reserve_after(os.environ),
        ),
    )


def reserve_after(environ: Mapping[str, str]) -> float:
    """Seconds that a Workload waits before nodes are kept for it; raises ValueError on what is no such number."""
    text = environ.get(HOLD_RESERVE_AFTER, "")
    try:
        seconds = float(text) if text else RESERVE_AFTER_SECONDS
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{HOLD_RESERVE_AFTER} is {text!r}: write a number of seconds, such as 300")
    return seconds


def topology_levels(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The levels above the hostname by which nodes are placed; raises ValueError on what is no list of label keys."""
    try:
        return read_levels(environ[TOPOLOGY_LEVELS]) if TOPOLOGY_LEVELS in environ else DEFAULT_LEVELS
    except ValueError as fault:
        raise ValueError(f"{TOPOLOGY_LEVELS}: {fault}") from fault


def _election(config: ManagerConfig, kube: Kube) -> LeaderElection:
    identity = f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
    return LeaderElection(kube, namespace=config.namespace, name="gpustack-manager", identity=identity)


async def _namespace(kube: Kube, name: str) -> None:
    """The manager's own namespace. In a cluster the chart has made it; on a laptop nobody has."""
    try:
        await kube.get(NAMESPACES, name)
    except NotFound:
        try:
            await kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        except AlreadyExists:
            return


class _NotServedError(KubeError):
    """Kueue, or part of it, is not installed."""


async def _kueue(kube: Kube) -> None:
    """Kueue's kinds are served in the version that we speak."""
    for resource in KUEUE:
        try:
            crd = await kube.get(CRDS, str(resource))
        except NotFound:
            raise _NotServedError(f"Kueue's {resource} are not installed") from None
        served = {version["name"] for version in crd["spec"]["versions"] if version.get("served")}
        if resource.version not in served or not is_true(crd, "Established"):
            raise _NotServedError(f"{resource} are not served as {resource.version}, but as {sorted(served)}")


async def _until_done(step: Callable[..., Awaitable[None]], *arguments: object) -> None:
    """Take a step that the rest stands on, as often as it takes; what is in the way is told once per cause."""
    told = ""
    while True:
        try:
            return await step(*arguments)
        except KubeError as error:
            if str(error) != told:
                told = str(error)
                log.warning("waiting before going on", step=step.__name__.strip("_"), cause=told)
        await anyio.sleep(RETRY_SECONDS)
