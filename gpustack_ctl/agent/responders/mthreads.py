"""MThreads: limits that the host's sGPU kernel module reads from the container's variables.

Memory is a cap in bytes, which the module rounds up to its next tier. Compute is a weight among the slices of a card
and not a cap: a slice alone on its card gets all of it. That is said in the log at every allocation, because a user who
asked for 30 per cent will measure otherwise.

Unverified on hardware. The variables are as HAMi documents them for the MThreads runtime; the module's name is the one
in Moore Threads' own driver sources (`sgpu_km`).
"""

from __future__ import annotations

import structlog

from gpustack_ctl.agent.inventory import DetectedCard, DetectedModel
from gpustack_ctl.agent.responders.enforcer import Budget, Lack
from gpustack_ctl.agent.responders.host import Host
from gpustack_ctl.agent.responders.responder import Grant, Response

log = structlog.get_logger()

MODULE = "/sys/module/sgpu_km"


class MThreadsEnforcer:
    def __init__(self, host: Host) -> None:
        self._host = host

    async def lacks(self, _model: DetectedModel, _card: DetectedCard) -> Lack | None:
        if self._host.exists(MODULE):
            return None
        return Lack(
            "the kernel module sgpu_km is not loaded", "install the package sgpu-dkms and run: modprobe sgpu_km"
        )

    async def enforce(self, grant: Grant, card: DetectedCard, budget: Budget) -> Response:
        log.info(
            "compute share is a weight among the card's slices, not a cap",
            pod=str(grant.pod),
            container=grant.container["name"],
            card=card.id,
            weight=budget.cores,
        )
        return Response(envs=variables(budget))


def variables(budget: Budget) -> dict[str, str]:
    """The plan of a slice, which is nothing but variables."""
    return {
        "MTHREADS_QOS_MEMORY_LIMIT": str(budget.memory_mib * 2**20),
        "MTHREADS_QOS_COMPUTING_POWER_WEIGHT": str(budget.cores),
    }
