"""What is taken back from Pods that are gone, and from nobody else."""

import pytest

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.agent.journal import Journal
from gpustack_ctl.agent.node_lock import NodeLock
from gpustack_ctl.agent.reclaim import Reclaim
from gpustack_ctl.agent.reservations import Promise, Reservations
from gpustack_ctl.agent.responders.enforcer import ReleaseError
from gpustack_ctl.agent.simulated_partitions import SimulatedPartitions
from gpustack_ctl.kube.store import Store
from tests.unit.agent.one_node import a_pod

SLICE = "metax-tech.com/gpu.sliced"


class Slices:
    """A manufacturer whose slices stay in the driver while it is busy."""

    def __init__(self):
        self.busy = False
        self.released = []

    async def release(self, uid):
        if self.busy:
            raise ReleaseError("in use")
        self.released.append(uid)


@pytest.fixture
def slices():
    return Slices()


@pytest.fixture
async def reservations(tmp_path):
    return Reservations(Journal(tmp_path / "journal"))


@pytest.fixture
def pods():
    return Store()


@pytest.fixture
def reclaim(tmp_path, slices, reservations, pods):
    return Reclaim(
        pods=pods,
        reservations=reservations,
        partitions=SimulatedPartitions(tmp_path / "partitions"),
        slices={SLICE: slices},
        kube=None,
        work_dir=tmp_path / "pods",
        lock=NodeLock(),
    )


def _promise(reservations, name, resource=SLICE):
    reservations.add(Promise(PodKey("default", name, f"uid-of-{name}"), "main", resource, (), ()))


async def test_a_slice_in_the_driver_goes_with_its_pod(reclaim, slices, reservations):
    _promise(reservations, "gone")

    await reclaim.reconcile("uid-of-gone")

    assert slices.released == ["uid-of-gone"]
    assert list(reservations) == []


async def test_a_slice_in_use_stays_promised(reclaim, slices, reservations):
    _promise(reservations, "gone")
    slices.busy = True

    with pytest.raises(ReleaseError):
        await reclaim.reconcile("uid-of-gone")

    assert [promise.pod.name for promise in reservations] == ["gone"]


async def test_other_families_ask_nothing_of_the_slices_driver(reclaim, slices, reservations):
    _promise(reservations, "gone", resource="metax-tech.com/gpu")
    slices.busy = True

    await reclaim.reconcile("uid-of-gone")

    assert list(reservations) == []


async def test_a_work_directory_that_nobody_knows_is_cleared(tmp_path, reclaim, slices, pods):
    here = a_pod("here")
    here["metadata"]["resourceVersion"] = "1"
    pods.put(here)
    for name in ("here", "gone"):
        (tmp_path / "pods" / f"uid-of-{name}" / "main").mkdir(parents=True)

    slices.busy = True
    await reclaim.sweep()
    assert (tmp_path / "pods" / "uid-of-gone").is_dir()

    slices.busy = False
    await reclaim.sweep()
    assert [path.name for path in (tmp_path / "pods").iterdir()] == ["uid-of-here"]
    assert slices.released == ["uid-of-gone"]
