"""Somebody else's cards: a recording of what NVML said on their machine, detected as if it were this one.

The recording goes through the same derivation as the driver's own answers, so what is published is what that machine
would publish. Its cards cannot run anything here; its partitions are as simulated as any without hardware.
"""

from __future__ import annotations

import anyio

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.agent.inventory import Inventory
from gpustack_ctl.agent.nvml.inventory import inventory_of
from gpustack_ctl.agent.nvml.snapshot import Snapshot


class ReplayDetector:
    """A detector that knows one answer."""

    def __init__(self, snapshot: Snapshot, *, table: Manufacturers, group_id_with_memory: bool = False) -> None:
        self._inventory = inventory_of(snapshot, table=table, group_id_with_memory=group_id_with_memory)

    async def detect(self) -> Inventory:
        return self._inventory

    async def changed(self) -> None:
        """Never: a recording stays as it is."""
        await anyio.sleep_forever()
