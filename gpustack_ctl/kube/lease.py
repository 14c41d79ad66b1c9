"""Leader election: one process at a time does the work of a role, whoever holds the Lease.

Two clocks never need to agree. A candidate does not read the holder's renewTime as a time; it watches whether the
Lease changes, and calls it expired when it did not for the lease's whole duration on the candidate's own clock. The
holder, on its side, stops after `renew_seconds` without a renewal, which is sooner: its work ends before another's
begins.
"""

from collections.abc import Awaitable, Callable
from math import ceil
from random import uniform
from time import monotonic

import anyio
import structlog

from gpustack_ctl.kube import metrics
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Unreachable
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import LEASES
from gpustack_ctl.kube.times import micro_time

TRY_SECONDS = 5.0
RELEASE_SECONDS = 3.0

_log = structlog.get_logger()


class LeaderElection:
    """A candidate for one Lease."""

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
        """`identity` must be this process's alone: whoever bears the holder's name is the holder.

        A lease lasts `lease_seconds` after its last renewal; the holder gives up after `renew_seconds` without one, and
        everybody tries every `retry_seconds`.
        """
        if not lease_seconds > renew_seconds > retry_seconds > 0:
            raise ValueError(f"lease {lease_seconds} s > renew {renew_seconds} s > retry {retry_seconds} s is needed")
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._retry_seconds = retry_seconds
        self._lease: Obj | None = None  # as last seen
        self._seen_at = 0.0
        self._log = _log.bind(lease=f"{namespace}/{name}", identity=identity)
        self._leading = metrics.leading.labels(f"{namespace}/{name}")
        self._trouble: str | None = None

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run `lead` for as long as it is held; again after a loss, until cancelled.

        `lead` is cancelled when the lease is lost, and its end is waited for. When it returns by itself, so does this.
        The lease is given back at the end, for the next one to take at once.
        """
        while True:
            try:
                renewed_at = await self._acquire()
                self._log.info("leading")
                self._leading.set(1)
                if await self._lead(lead, renewed_at):
                    return
                self._log.warning("leading no more: the lease is another's, or could not be renewed in time")
            finally:
                self._leading.set(0)
                with anyio.move_on_after(RELEASE_SECONDS, shield=True):
                    await self._release()

    async def _acquire(self) -> float:
        while True:
            started = monotonic()
            if await self._try():
                return started
            await anyio.sleep(uniform(0.8, 1.2) * self._retry_seconds)  # noqa: S311 — spreads candidates

    async def _lead(self, lead: Callable[[], Awaitable[None]], renewed_at: float) -> bool:
        """Whether `lead` came to its own end; False when the lease was lost."""
        finished = False

        async def follow() -> None:
            nonlocal finished
            await lead()
            finished = True
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await self._renew_for_long(renewed_at)
            tasks.cancel_scope.cancel()
        return finished

    async def _renew_for_long(self, renewed_at: float) -> None:
        """Returns when the lease is lost: taken by another, or not renewed in time."""
        while True:
            await anyio.sleep(self._retry_seconds)
            started = monotonic()
            left = renewed_at + self._renew_seconds - started
            if left <= 0:
                return
            if await self._try(seconds=min(left, TRY_SECONDS)):
                renewed_at = started  # the server stamped it no earlier than this
            elif self._holder() not in ("", self._identity):
                return

    async def _try(self, *, seconds: float = TRY_SECONDS) -> bool:
        """Take or renew the lease if it may be had. No failure is fatal: there is another try."""
        try:
            with anyio.move_on_after(seconds):
                held = await self._take()
                self._recovered()
                return held
            self._failed(Unreachable(self._kube.server, f"no answer within {seconds:.0f} s"))
        except Conflict:
            pass  # another candidate was quicker; the next look shows who
        except KubeError as error:
            self._failed(error)
        return False

    async def _take(self) -> bool:
        try:
            lease = await self._kube.get(LEASES, self._name, self._namespace)
        except NotFound:
            return await self._create()
        self._saw(lease)
        holder = self._holder()
        if holder not in ("", self._identity) and not self._expired():
            return False
        spec = (lease.get("spec") or {}) | self._claim()
        if holder != self._identity:
            spec["acquireTime"] = spec["renewTime"]
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        self._saw(await self._kube.replace(LEASES, lease | {"spec": spec}))
        return True

    async def _create(self) -> bool:
        spec = self._claim()
        lease: Obj = {
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": spec | {"acquireTime": spec["renewTime"], "leaseTransitions": 0},
        }
        try:
            self._saw(await self._kube.create(LEASES, lease))
        except AlreadyExists:
            return False
        return True

    async def _release(self) -> None:
        """Say that nobody holds the lease, if it is still ours to say: a claim cut short may have been heard."""
        nobody = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time()}
        try:
            self._saw(lease := await self._kube.get(LEASES, self._name, self._namespace))
            if self._holder() == self._identity:
                self._saw(await self._kube.replace(LEASES, lease | {"spec": lease["spec"] | nobody}))
        except NotFound:
            return
        except KubeError as error:
            self._log.debug("the lease was not released and will expire", error=str(error))

    def _claim(self) -> Obj:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": ceil(self._lease_seconds),
            "renewTime": micro_time(),
        }

    def _saw(self, lease: Obj) -> None:
        """Remember the lease, and when it last changed on our own clock."""
        before = self._lease and self._lease["metadata"]["resourceVersion"]
        if lease["metadata"]["resourceVersion"] != before:
            self._seen_at = monotonic()
        self._lease = lease

    def _holder(self) -> str:
        spec = (self._lease or {}).get("spec") or {}
        return str(spec.get("holderIdentity") or "")

    def _expired(self) -> bool:
        spec = (self._lease or {}).get("spec") or {}
        return monotonic() - self._seen_at > float(spec.get("leaseDurationSeconds") or self._lease_seconds)

    def _failed(self, error: KubeError) -> None:
        trouble = type(error).__name__
        if trouble != self._trouble:
            self._trouble = trouble
            self._log.warning("the lease cannot be had; retrying", error=str(error))

    def _recovered(self) -> None:
        if self._trouble is not None:
            self._trouble = None
            self._log.info("the lease can be had again")
