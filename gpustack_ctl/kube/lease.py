"""Leader election on a Lease."""

from collections.abc import Awaitable, Callable

from gpustack_ctl.kube.client import Kube


class LeaderElection:
    def __init__(
        self,
        kube: Kube,
        *,
        namespace: str,
        name: str,
        identity: str,
        lease_seconds: float = 15,
        renew_seconds: float = 10,
        retry_seconds: float = 2,
    ) -> None:
        raise NotImplementedError

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        raise NotImplementedError
