"""Whose turn it is."""

import pytest
from grpclib import Status

from gpustack_ctl.accel.families import KeyKind, Mode
from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.accel.records import Entry, format_record
from gpustack_ctl.agent.identify import Identifier
from tests.unit.agent.one_node import a_pod, asks, slice_of

SLICED = "nvidia.com/gpu.sliced"
BY_GUESS = {"GPUSTACK_DEVICE_PLUGIN_IDENTIFY_BY_KUBELET": "false"}


async def test_the_kubelets_word_beats_age(a_node):
    node = await a_node()
    node.put(a_pod("older-but-not-admitted", slice_of(10)))
    pod = node.admit("admitted", slice_of(20))

    await node.allocate(KeyKind.SLICED)

    assert node.held(pod)


async def test_a_container_that_has_its_devices_is_not_asked_for_again(a_node):
    node = await a_node()
    node.admit("first", slice_of(10))
    await node.allocate(KeyKind.SLICED, heard="first")
    second = node.admit("second", slice_of(20))

    await node.allocate(KeyKind.SLICED)

    assert node.held(second)


async def test_an_ordinary_init_container_is_found_though_the_kubelet_does_not_list_it(a_node):
    node = await a_node()
    pod = node.admit("staged", slice_of(20), initContainers=[slice_of(10, name="prepare")])

    await node.allocate(KeyKind.SLICED)

    assert node.held(pod).keys() == {"prepare"}


async def test_containers_are_told_apart_by_quantity(a_node):
    node = await a_node()
    pod = node.admit("two", asks({"nvidia.com/gpu": 1}, name="one"), asks({"nvidia.com/gpu": 2}, name="pair"))

    await node.allocate(KeyKind.WHOLE, 2)

    assert node.held(pod).keys() == {"pair"}


async def test_a_burst_of_equal_pods_is_told_apart_without_the_kubelet(a_node):
    node = await a_node(**BY_GUESS)
    pods = [node.put(a_pod(f"pod-{number}", slice_of(10))) for number in range(5)]

    for _ in pods:
        await node.allocate(KeyKind.SLICED)

    assert all(node.held(pod) for pod in pods)


async def test_a_guess_takes_only_a_pod_that_the_devices_could_serve(a_node):
    node = await a_node(**BY_GUESS)
    node.put(a_pod("large", slice_of(80)))
    small = node.put(a_pod("small", slice_of(20)))
    card = node.ledger.detected[0]
    held = Entry(card.group, card.manufacturer, card.id, card.index, Mode.SLICED, 800_000)
    filler = a_pod("filler", slice_of(50))
    filler["status"]["phase"] = "Running"
    filler["metadata"]["annotations"][ALLOCATED] = format_record({"main": (held,)})
    node.put(filler)

    await node.allocate(KeyKind.SLICED, tokens=[f"{card.group}::{card.id}::9"])

    assert node.held(small)


async def test_a_kubelet_that_is_busy_once_is_asked_again(a_node):
    node = await a_node()
    node.put(a_pod("older", slice_of(10)))
    pod = node.admit("admitted", slice_of(20))
    node.kubelet.refusals = [Status.RESOURCE_EXHAUSTED]

    await node.allocate(KeyKind.SLICED)

    assert node.held(pod)


async def test_a_kubelet_that_stays_busy_is_done_without(a_node):
    node = await a_node()
    node.admit("admitted", slice_of(20))
    node.kubelet.refusals = [Status.RESOURCE_EXHAUSTED] * 4

    await node.allocate(KeyKind.SLICED)

    assert len(list(node.reservations)) == 1


async def test_a_pod_that_the_watch_has_not_shown_yet_is_read_from_the_server(a_node):
    node = await a_node()
    pod = a_pod("ahead", slice_of(20))
    node.kubelet.pods.append(pod)
    asked = []

    class Server:
        async def get(self, resource, name, namespace):
            asked.append((namespace, name))
            return pod

    identifier = Identifier(
        pods=node.pods, kube=Server(), reservations=node.reservations, pod_resources=node.pod_resources
    )

    claim = await identifier.identify(SLICED, count=1, serves=lambda claim: True)

    assert claim is not None
    assert claim.uid == pod["metadata"]["uid"]
    assert asked == [("default", "ahead")]


@pytest.mark.parametrize("limit", ["one", "", None, "1.5"])
async def test_a_quantity_that_cannot_be_read_asks_for_nothing(a_node, limit):
    node = await a_node(**BY_GUESS)
    pod = a_pod("odd", slice_of(20))
    pod["spec"]["containers"][0]["resources"]["limits"][SLICED] = limit
    node.put(pod)
    identifier = Identifier(pods=node.pods, kube=None, reservations=node.reservations, pod_resources=None)

    assert await identifier.identify(SLICED, count=1, serves=lambda claim: True) is None
