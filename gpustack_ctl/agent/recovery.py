"""What a new agent process takes up from the one before it, before it serves anything.

The journal has every promise that this disk knows of. Where it was lost, the kubelet still knows which tokens each
container has, and the Pod's record which cards: a container that the kubelet lists with our tokens, and that has no
promise, gets one again. What the kubelet does not confirm stays what it is, a record, which the ledger counts anyway.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import structlog

from gpustack_ctl.accel.families import KeyKind, Manufacturers
from gpustack_ctl.accel.ledger import pod_key
from gpustack_ctl.accel.placement import choices
from gpustack_ctl.accel.records import Entry, readable_record
from gpustack_ctl.agent.identify import Claim
from gpustack_ctl.agent.node_ledger import NodeLedger
from gpustack_ctl.agent.pod_resources import PodResources, PodResourcesUnavailable
from gpustack_ctl.agent.reservations import Promise, PromiseKey, Reservations
from gpustack_ctl.agent.tokens import PLUGIN_KINDS, PluginResource, read_token
from gpustack_ctl.agent.turns import AllocationRefused, demand_of
from gpustack_ctl.kube.informer import Informer

log = structlog.get_logger()


async def recover(
    *,
    reservations: Reservations,
    ledger: NodeLedger,
    pods: Informer,
    pod_resources: PodResources,
    table: Manufacturers,
) -> None:
    """Bring the reservations up to what this node's disk, its kubelet and its Pods know. `pods` is synced."""
    await reservations.load()
    async for claim, resource, tokens in _held(pods, pod_resources, table):
        if PromiseKey(claim.uid, claim.container, resource.name) in reservations:
            continue
        entries = _entries(claim, resource, tokens, ledger, table)
        if entries is None:
            log.warning("container holds devices that nothing records", container=str(claim), resource=resource.name)
            continue
        reservations.add(Promise(pod_key(claim.pod), claim.container, resource.name, tokens, entries))
        log.info("promise recovered from the kubelet", container=str(claim), resource=resource.name)
    await reservations.flush()


async def _held(
    pods: Informer, pod_resources: PodResources, table: Manufacturers
) -> AsyncIterator[tuple[Claim, PluginResource, tuple[str, ...]]]:
    """Every container that the kubelet lists with tokens of ours."""
    try:
        admitted = await pod_resources.admitted()
    except PodResourcesUnavailable as error:
        log.warning("the kubelet does not say who holds devices; its Pods' records stand alone", error=str(error))
        return
    ours = {resource.name: resource for resource in _resources(table)}
    for listed in admitted:
        pod = pods.get(listed.key)
        if pod is None:
            continue
        for container, devices in listed.containers.items():
            for name in devices.keys() & ours.keys():
                yield Claim(pod, container), ours[name], devices[name]


def _resources(table: Manufacturers) -> Iterator[PluginResource]:
    for manufacturer in table.by_key.values():
        for kind in PLUGIN_KINDS:
            yield PluginResource(manufacturer, kind)


def _entries(
    claim: Claim, resource: PluginResource, tokens: tuple[str, ...], ledger: NodeLedger, table: Manufacturers
) -> tuple[Entry, ...] | None:
    """The cards of tokens that the kubelet confirms: as recorded, else as the tokens name them. None: nobody knows."""
    family = resource.family
    if family is None:
        return ()
    written = readable_record(claim.pod).get(claim.container, ())
    recorded = tuple(entry for entry in written if entry.mode is family.mode)
    if recorded:
        return recorded
    if resource.kind is KeyKind.PARTITIONED:
        return None  # its tokens are a quantity, and name no card
    cards = [token.card for device_id in tokens if (token := read_token(device_id))]
    model = next((m for m in ledger.inventory.models if any(card.id in cards for card in m.cards)), None)
    if model is None:
        return None
    try:
        demand = demand_of(claim, resource, model, table)
    except AllocationRefused:
        return None
    return tuple(choice.entry() for choice in choices(demand, cards, ledger.cards))
