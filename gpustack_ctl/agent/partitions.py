"""Hardware partitions: making an instance on a card, and taking it away.

This is what the allocator needs of a backend, whichever it is. An instance outlives the process that made it, so every
backend writes down who owns which before anybody is told of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.accel.records import Entry


class PartitionError(Exception):
    """An instance could not be made or destroyed; the text says what the driver answered."""


class NoRoomError(PartitionError):
    """The place is taken, or the hardware has no more of what the profile takes."""


class InstanceInUseError(PartitionError):
    """A program still runs on the instance, so it stays."""


class Partitions(Protocol):
    """The instances of this node's partitioned cards."""

    async def create(self, pod: PodKey, container: str, entries: Iterable[Entry]) -> tuple[str, ...]:
        """The ids of the container's instances, one per entry; those it already has are kept. Raises PartitionError."""
        ...

    async def existing(self, uid: str, container: str) -> tuple[str, ...]:
        """The ids of the container's instances, without making any."""
        ...

    async def destroy(self, uid: str) -> None:
        """Take away every instance of a Pod that is gone. Raises PartitionError while one is in use."""
        ...

    async def owners(self) -> set[PodKey]:
        """The Pods that own instances."""
        ...
