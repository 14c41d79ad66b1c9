"""Cards that are not there: a node's inventory from a file, for laptops, tests and demonstrations.

Everything above the detector is the real thing, so what is simulated must behave like hardware: ids stay the same over
restarts, differ between nodes, and have the length of real ones; health changes at the moments the file says.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import anyio

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.naming import group_id
from gpustack_ctl.agent.detectors.inventory_file import CardFailure, InventoryFile
from gpustack_ctl.agent.inventory import CardLocation, DetectedCard, DetectedModel, Inventory
from gpustack_ctl.documents.cards import CardsEntry


class SimulatedDetector:
    """A detector whose hardware is an inventory file. Failures count from the detector's making."""

    def __init__(
        self,
        file: InventoryFile,
        *,
        node_name: str,
        table: Manufacturers,
        group_id_with_memory: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._node_name = node_name
        self._table = table
        self._with_memory = group_id_with_memory
        self._clock = clock
        self._started = clock()
        #: The age at which the cards were last looked at: an edge after it is news, however late it is asked for.
        self._seen = 0.0

    async def detect(self) -> Inventory:
        """The file's cards, as healthy as they are at this moment."""
        self._seen = self._clock() - self._started
        sick = self._sick()
        models: dict[tuple[str, str], DetectedModel] = {}
        index = 0
        for entry in self._file.cards:
            group = group_id(
                entry.product, entry.manufacturer, memory_mib=entry.memory_mib if self._with_memory else None
            )
            cards = tuple(self._card(entry, at, index + at, sick) for at in range(entry.count))
            index += entry.count
            key = (entry.manufacturer, group)
            before = models[key].cards if key in models else ()
            models[key] = self._model(entry, group, before + cards)
        return Inventory(tuple(models.values()))

    async def changed(self) -> None:
        """Return at the next moment a card's health changes; never, when none will."""
        edges = [edge for failure in self._file.card_failures for edge in _edges(failure) if edge > self._seen]
        if not edges:
            await anyio.sleep_forever()
        await anyio.sleep(max(min(edges) - (self._clock() - self._started), 0.0))

    def _sick(self) -> set[int]:
        now = self._seen
        return {
            failure.card
            for failure in self._file.card_failures
            if failure.at <= now and (failure.seconds is None or now < failure.at + failure.seconds)
        }

    def _card(self, entry: CardsEntry, at: int, index: int, sick: set[int]) -> DetectedCard:
        return DetectedCard(
            id=f"GPU-{uuid.uuid5(_NAMESPACE, f'{self._node_name}/{entry.manufacturer}/{index}')}",
            index=index,
            location=CardLocation(pci_bus_id=f"0000:{index + 1:02x}:00.0", numa=entry.numa[at]),
            healthy=index not in sick,
            slots=entry.slots,
            profiles=entry.profiles,
        )

    def _model(self, entry: CardsEntry, group: str, cards: tuple[DetectedCard, ...]) -> DetectedModel:
        manufacturer = self._table.by_key[entry.manufacturer]
        return DetectedModel(
            group=group,
            manufacturer=entry.manufacturer,
            product=entry.product,
            memory_mib=entry.memory_mib,
            cards=cards,
            cores=entry.cores,
            cores_overcommit=manufacturer.cores_overcommit,
            driver_version=entry.driver_version,
            runtime_version=entry.runtime_version,
            compute_capability=entry.compute_capability,
            family=entry.family,
        )


#: Any fixed namespace will do: ids are made from the node's name, so that no two nodes share one.
_NAMESPACE = uuid.UUID("6f1f64d0-7a53-5a3c-9d6f-0c7e8f3f5b11")


def _edges(failure: CardFailure) -> tuple[float, ...]:
    return (failure.at,) if failure.seconds is None else (failure.at, failure.at + failure.seconds)
