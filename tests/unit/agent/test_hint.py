"""Which tokens the kubelet is told to hand out."""

from gpustack_ctl.accel.families import KeyKind
from tests.unit.agent.one_node import asks, slice_of

PLAN = "device.gpustack.ai/accelerator.planned"
WORKLOAD = "kueue.x-k8s.io/workload"


async def _prefer(node, kind, *, size=1, must_include=(), available=None):
    resource = node.resource(kind)
    available = node.free_tokens(kind) if available is None else available
    return await node.hinter.prefer(resource, available=available, must_include=must_include, size=size)


async def test_a_slice_goes_to_the_fullest_card_that_still_fits(a_node):
    node = await a_node()
    for name, percent, card in (("a", 60, 2), ("b", 30, 1)):
        node.admit(name, slice_of(percent))
        token = next(token for token in node.free_tokens(KeyKind.SLICED) if _card(node, card) in token)
        await node.allocate(KeyKind.SLICED, tokens=[token], heard=name)
    node.admit("c", slice_of(40))

    assert [_card(node, 2) in token for token in await _prefer(node, KeyKind.SLICED)] == [True]


async def test_every_token_of_a_hint_was_on_offer(a_node):
    node = await a_node()
    node.admit("share", asks({"nvidia.com/gpu.shared": 3}))
    available = [token for token in node.free_tokens(KeyKind.SHARED) if token.endswith("::7")]

    hint = await _prefer(node, KeyKind.SHARED, size=3, available=available)

    assert len(hint) == 3
    assert set(hint) <= set(available)


async def test_what_must_be_included_is(a_node):
    node = await a_node()
    node.admit("pair", asks({"nvidia.com/gpu": 2}))
    must = node.free_tokens(KeyKind.WHOLE)[3:]

    hint = await _prefer(node, KeyKind.WHOLE, size=2, must_include=must)

    assert must[0] in hint
    assert len(set(hint)) == 2


async def test_where_nothing_fits_there_is_no_hint(a_node):
    node = await a_node()
    node.admit("wide", asks({"nvidia.com/gpu.shared": 5}))

    assert await _prefer(node, KeyKind.SHARED, size=5) == []


async def test_the_pods_own_plan_comes_first(a_node):
    node = await a_node()
    pod = node.admit("planned", slice_of(30))
    pod["metadata"]["annotations"] = {WORKLOAD: "w", PLAN: _plan(node, 3)}

    assert [_card(node, 3) in token for token in await _prefer(node, KeyKind.SLICED)] == [True]


async def test_a_neighbours_planned_card_comes_last(a_node):
    node = await a_node()
    neighbour = node.admit("neighbour", asks({"nvidia.com/gpu": 1}))
    neighbour["metadata"]["annotations"] = {WORKLOAD: "w", PLAN: _plan(node, 0)}
    neighbour["metadata"]["creationTimestamp"] = "2026-06-01T00:00:00Z"
    node.admit("whole", asks({"nvidia.com/gpu": 1}))

    (token,) = await _prefer(node, KeyKind.WHOLE)

    assert _card(node, 1) in token


async def test_a_forged_plan_is_a_hint_ignored(a_node):
    node = await a_node()
    pod = node.admit("forger", slice_of(30))
    pod["metadata"]["annotations"] = {
        WORKLOAD: "w",
        PLAN: '{"v":1,"nodes":{"node-1":[{"main":[{"id":"GPU-nowhere"}]}]}}',
    }

    assert [_card(node, 0) in token for token in await _prefer(node, KeyKind.SLICED)] == [True]


def _card(node, index):
    return node.ledger.detected[index].id


def _plan(node, index):
    return f'{{"v":1,"nodes":{{"node-1":[{{"main":[{{"id":"{_card(node, index)}"}}]}}]}}}}'
