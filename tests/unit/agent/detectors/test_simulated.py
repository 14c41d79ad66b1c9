"""Cards that are not there behave as hardware does."""

import anyio
import anyio.lowlevel
import pytest

from gpustack_ctl.accel.cards import cards_of
from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.agent.detectors.detector import DetectionError, inventories
from gpustack_ctl.agent.detectors.inventory_file import read_inventory
from gpustack_ctl.agent.detectors.simulated import SimulatedDetector
from gpustack_ctl.agent.inventory import Inventory

TABLE = manufacturers()
TWO_MODELS = """
cards:
- {model: NVIDIA A10G, manufacturer: nvidia, count: 2, memoryMib: 24576, numa: [0, 1]}
- {model: Tesla T4, manufacturer: nvidia, count: 1, memoryMib: 15360, runtimeVersion: "12.4"}
failures:
- {at: 10, card: 1, for: 5}
"""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _detector(text=TWO_MODELS, *, node="node-1", **options):
    file = read_inventory(text, source="cards.yaml", table=TABLE)
    return SimulatedDetector(file, node_name=node, table=TABLE, **options)


async def test_ids_are_the_same_after_a_restart_and_on_no_other_node():
    first, again, elsewhere = [await _detector(node=node).detect() for node in ("node-1", "node-1", "node-2")]

    assert first == again
    ids = [{card.id for model in found.models for card in model.cards} for found in (first, elsewhere)]
    assert not ids[0] & ids[1]
    assert len(ids[0]) == 3


async def test_indexes_run_over_the_models_of_a_node():
    found = await _detector().detect()

    assert [(model.akey, [card.index for card in model.cards]) for model in found.models] == [
        ("nvidia-a10g", [0, 1]),
        ("nvidia-tesla-t4", [2]),
    ]


async def test_the_published_spec_reads_back_as_the_cards():
    cards = cards_of((await _detector().detect()).spec())

    assert [(card.akey, card.index, card.numa, card.slots, card.healthy) for card in cards] == [
        ("nvidia-a10g", 0, 0, 128, True),
        ("nvidia-a10g", 1, 1, 128, True),
        ("nvidia-tesla-t4", 2, None, 128, True),
    ]


async def test_partitioned_cards_publish_their_catalog_and_host_no_slices():
    text = "cards: [{model: NVIDIA A100-SXM4-40GB, manufacturer: nvidia, count: 2, memoryMib: 40960, mig: true}]"

    spec = (await _detector(text).detect()).spec()

    (group,) = spec["groups"]
    detail = group["acceleratorSlicedDetail"]
    assert detail["logical"]["count"] == 0
    assert {"name": "7g.40gb", "count": 2, "memoryMib": 40448} in detail["physical"]["profiles"]
    assert all(card.partitioned for card in cards_of(spec))


async def test_models_of_one_product_differ_by_memory_only_when_told_so():
    text = "\n".join(
        ["cards:", *(f"- {{model: A100, manufacturer: nvidia, memoryMib: {gib * 1024}}}" for gib in (40, 80))]
    )

    assert [model.group for model in (await _detector(text, group_id_with_memory=True).detect()).models] == [
        "a100-40gb",
        "a100-80gb",
    ]


async def test_a_card_is_ill_exactly_as_long_as_the_file_says():
    clock = Clock()
    detector = _detector(clock=clock)
    health = []
    for clock.now in (9.9, 10, 14.9, 15):
        found = await detector.detect()
        health.append([card.healthy for model in found.models for card in model.cards])

    assert health == [[True] * 3, [True, False, True], [True, False, True], [True] * 3]


async def test_a_change_that_passed_unseen_is_still_news():
    clock = Clock()
    detector = _detector(clock=clock)
    await detector.detect()
    clock.now = 12

    with anyio.fail_after(1):
        await detector.changed()


async def test_a_detection_that_failed_is_not_no_accelerators():
    good = await _detector().detect()

    answers = [good, DetectionError("driver is reloading"), DetectionError("driver is reloading"), Inventory()]

    class Flaky:
        async def detect(self):
            answer = answers.pop(0)
            if isinstance(answer, DetectionError):
                raise answer
            return answer

        async def changed(self):
            await anyio.lowlevel.checkpoint()

    found = []
    async for inventory in inventories(Flaky(), retry_seconds=0):
        found.append(inventory)
        if len(found) == 2:
            break

    assert found == [good, Inventory()]


@pytest.mark.parametrize("text", ["cards: [{model: NVIDIA A10G, manufacturer: nvidia, memoryMib: 24576}]"])
async def test_without_failures_nothing_ever_changes(text):
    detector = _detector(text)
    await detector.detect()

    with anyio.move_on_after(0.05) as waited:
        await detector.changed()
    assert waited.cancelled_caught
