"""What is advertised for a card in each state."""

import pytest

from gpustack_ctl.accel.families import KeyKind
from gpustack_ctl.agent.tokens import Token, read_token
from tests.unit.agent.one_node import TWO_MIG_A100, asks, slice_of


def _offers(node, kind):
    resource = node.resource(kind)
    return resource.offers(node.ledger.current.states, held=node.reservations.tokens(resource.name))


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        (KeyKind.WHOLE, 4),
        (KeyKind.SHARED, 40),
        (KeyKind.SLICED, 512),
        (KeyKind.PARTITIONED, 0),
        (KeyKind.VISIBILITY, 2048),
    ],
)
async def test_four_free_cards_offer(a_node, kind, count):
    node = await a_node()

    offers = _offers(node, kind)

    assert len(offers) == len({offer.id for offer in offers}) == count
    assert all(offer.healthy for offer in offers)


async def test_a_partitioned_card_is_in_no_other_population(a_node):
    node = await a_node(TWO_MIG_A100)

    assert [len(_offers(node, kind)) for kind in (KeyKind.WHOLE, KeyKind.SHARED, KeyKind.SLICED)] == [0, 0, 0]
    assert _offers(node, KeyKind.PARTITIONED)
    assert len(_offers(node, KeyKind.VISIBILITY)) == 1024


async def test_a_card_in_another_mode_keeps_its_tokens_and_calls_them_unhealthy(a_node):
    node = await a_node()
    node.admit("half", slice_of(50))
    await node.allocate(KeyKind.SLICED)

    healthy = {kind: sum(offer.healthy for offer in _offers(node, kind)) for kind in (KeyKind.WHOLE, KeyKind.SHARED)}

    assert healthy == {KeyKind.WHOLE: 3, KeyKind.SHARED: 30}
    assert len(_offers(node, KeyKind.WHOLE)) == 4
    assert all(offer.healthy for offer in _offers(node, KeyKind.SLICED))
    assert all(offer.healthy for offer in _offers(node, KeyKind.VISIBILITY))


async def test_a_partition_in_use_keeps_its_own_token_when_their_number_falls(a_node):
    node = await a_node(TWO_MIG_A100)
    key = "nvidia.com/gpu.partitioned"
    before = _offers(node, KeyKind.PARTITIONED)
    last = before[-1].id
    node.admit("large", asks({key: 1, f"{key}.mig-7g.80gb": 1}))
    await node.allocate(KeyKind.PARTITIONED, tokens=[last])

    after = _offers(node, KeyKind.PARTITIONED)

    assert last in {offer.id for offer in after}
    assert len(after) == len(before) // 2 + 1


async def test_the_cheap_reading_differs_when_the_offers_do(a_node):
    node = await a_node()
    resource = node.resource(KeyKind.WHOLE)
    before = resource.reads(node.ledger.current.states)
    assert resource.reads(node.ledger.current.states) == before
    node.admit("half", slice_of(50))
    await node.allocate(KeyKind.SLICED)

    assert resource.reads(node.ledger.current.states) != before


@pytest.mark.parametrize("text", ["", "a10g", "a10g::GPU-1", "a10g::GPU-1::x", "::GPU-1::1", "a10g::::1"])
def test_what_is_no_token_reads_as_none(text):
    assert read_token(text) is None


def test_a_token_reads_back():
    token = Token("a100-sxm4-80gb", "GPU-4159b128-0bc7-5ae2-a155-907299180d33", 127)

    assert read_token(str(token)) == token
    assert len(str(token)) <= 63, "the kubelet's documented limit"
