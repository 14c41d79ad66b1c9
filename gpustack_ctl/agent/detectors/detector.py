"""What a detector is, and how the agent follows one.

A detection that failed is not "no accelerators": taking the cards off the node for a hiccup of the driver would strand
every Pod on it. So a failed pass keeps the last good answer, and says so once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import anyio
import structlog

from gpustack_ctl.agent.inventory import Inventory

log = structlog.get_logger()


class DetectionError(Exception):
    """A detection pass failed; the text says what the host or the driver answered, `remedy` what may help."""

    def __init__(self, text: str, *, remedy: str = "") -> None:
        super().__init__(text)
        self.remedy = remedy


class Detector(Protocol):
    """One way of looking at the hardware."""

    async def detect(self) -> Inventory:
        """What is there now. Raises DetectionError."""
        ...

    async def changed(self) -> None:
        """Return when it is worth detecting again."""
        ...


async def inventories(detector: Detector, *, retry_seconds: float = 5.0) -> AsyncIterator[Inventory]:
    """The first good inventory, then each one that differs from the last."""
    last: Inventory | None = None
    failing = False
    while True:
        try:
            found = await detector.detect()
        except DetectionError as error:
            if not failing:
                log.warning(
                    "detection failed, keeping what is known",
                    known=last is not None,
                    error=str(error),
                    remedy=error.remedy,
                )
            failing = True
            await anyio.sleep(retry_seconds)
            continue
        if failing:
            log.info("detection works again")
        failing = False
        if found != last:
            last = found
            yield found
        await detector.changed()
