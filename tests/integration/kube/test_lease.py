"""One leads at a time, and somebody leads again soon."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

import anyio
import pytest

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.lease import LeaderElection
from gpustack_ctl.kube.resources import LEASES
from tests.integration.kube.plane import Plane
from tests.integration.kube.proxy import Proxy


class Candidate:
    """One process's part in the election, and what it may see: whether it leads now, and since and until when."""

    def __init__(self, kube: Kube, namespace: str, identity: str, *, wind_down: float = 0) -> None:
        self.identity = identity
        self.leading = False
        self.spans: list[tuple[float, float]] = []
        self._wind_down = wind_down
        self.election = LeaderElection(
            kube,
            namespace=namespace,
            name="role",
            identity=identity,
            lease_seconds=2,
            renew_seconds=1.2,
            retry_seconds=0.2,
        )

    async def lead(self) -> None:
        self.leading, since = True, monotonic()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(self._wind_down)
            self.leading = False
            self.spans.append((since, monotonic()))


async def until(true: Callable[[], bool], *, seconds: float = 10) -> None:
    with anyio.fail_after(seconds):
        while not true():  # noqa: ASYNC110 — it waits for another program
            await anyio.sleep(0.02)


@asynccontextmanager
async def standing(candidate: Candidate) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(candidate.election.run, candidate.lead)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


async def test_the_first_leads_and_the_second_follows_at_once_when_it_ends(kube: Kube, namespace: str) -> None:
    first, second = Candidate(kube, namespace, "first", wind_down=0.3), Candidate(kube, namespace, "second")
    async with standing(first):
        await until(lambda: first.leading)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second.election.run, second.lead)
            await anyio.sleep(3)
            assert first.leading
            assert not second.leading
            tasks.cancel_scope.cancel()
    lease = await kube.get(LEASES, "role", namespace)
    assert lease["spec"]["holderIdentity"] == ""
    async with standing(second):
        await until(lambda: second.leading, seconds=1)
    lease = await kube.get(LEASES, "role", namespace)
    assert lease["spec"]["leaseTransitions"] == 1
    assert first.spans[0][1] <= second.spans[0][0]


async def test_a_leader_that_falls_silent_is_replaced_after_the_lease(kube: Kube, namespace: str) -> None:
    dead = {"holderIdentity": "dead", "leaseDurationSeconds": 2, "renewTime": "2099-01-01T00:00:00.000000Z"}
    await kube.create(LEASES, {"metadata": {"namespace": namespace, "name": "role"}, "spec": dead})
    heir = Candidate(kube, namespace, "heir")
    started = monotonic()
    async with standing(heir):
        await until(lambda: heir.leading)
    assert 2 <= monotonic() - started < 4


async def test_a_leader_cut_off_ends_before_another_begins_and_stands_again(
    kube: Kube, far: Kube, proxy: Proxy, namespace: str
) -> None:
    cut_off = Candidate(far, namespace, "cut-off", wind_down=0.5)
    other = Candidate(kube, namespace, "other")
    async with standing(cut_off):
        await until(lambda: cut_off.leading)
        async with standing(other):
            await anyio.sleep(0.5)
            proxy.stalled = True
            await until(lambda: other.leading)
            assert not cut_off.leading
            proxy.stalled = False
            proxy.cut()
            await anyio.sleep(1)
            assert other.leading
            assert not cut_off.leading
        await until(lambda: cut_off.leading)
    assert cut_off.spans[0][1] <= other.spans[0][0]
    assert other.spans[0][1] <= cut_off.spans[1][0]


async def test_a_lease_taken_by_force_is_given_up(kube: Kube, namespace: str) -> None:
    candidate = Candidate(kube, namespace, "candidate")
    async with standing(candidate):
        await until(lambda: candidate.leading)
        taken = {"spec": {"holderIdentity": "usurper", "leaseDurationSeconds": 2}}
        await kube.patch(LEASES, "role", taken, namespace=namespace)
        await until(lambda: not candidate.leading, seconds=1)
        assert (await kube.get(LEASES, "role", namespace))["spec"]["holderIdentity"] == "usurper"


async def test_work_that_ends_by_itself_ends_the_leading(kube: Kube, namespace: str) -> None:
    done = 0

    async def lead() -> None:
        nonlocal done
        done += 1

    with anyio.fail_after(5):
        await Candidate(kube, namespace, "brief").election.run(lead)
    assert done == 1
    assert (await kube.get(LEASES, "role", namespace))["spec"]["holderIdentity"] == ""


async def test_an_error_of_the_work_is_not_swallowed_and_the_lease_is_given_back(kube: Kube, namespace: str) -> None:
    async def lead() -> None:
        raise RuntimeError("on purpose")

    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="on purpose")):
        await Candidate(kube, namespace, "faulty").election.run(lead)
    assert (await kube.get(LEASES, "role", namespace))["spec"]["holderIdentity"] == ""


async def test_a_short_absence_of_the_server_costs_no_leadership(kube: Kube, plane: Plane, namespace: str) -> None:
    candidate = Candidate(kube, namespace, "patient")
    candidate.election = LeaderElection(
        kube,
        namespace=namespace,
        name="role",
        identity="patient",
        lease_seconds=15,
        renew_seconds=10,
        retry_seconds=0.2,
    )
    async with standing(candidate):
        await until(lambda: candidate.leading)
        await plane.kill()
        await anyio.sleep(1)
        await plane.start()
        await anyio.sleep(1)
        assert candidate.leading
        assert candidate.spans == []


def test_times_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="lease 5 s"):
        LeaderElection(None, namespace="n", name="x", identity="i", lease_seconds=5, renew_seconds=10)  # type: ignore[arg-type]
