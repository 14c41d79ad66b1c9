"""A Workload that the fit labels keep off every node is parked and told why, as one that gate 3 held itself.

The labels act before Kueue reserves quota, so gate 3 is never asked about it, and Kueue's own words for it are
"excluded: affinity". Parking has to take it up: with a pin that names the node and the nearest miss, with its place in
the order by priority and age, and with the bound on its wait. The demonstration's latecomer is such a Workload.
"""

from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.labels import SLICED_FIT_PREFIX
from gpustack_ctl.accel.units import percentage_units
from gpustack_ctl.controllers.pins import pin_of
from gpustack_ctl.kube.objects import labels_of, name_of, namespace_of
from gpustack_ctl.kube.resources import EVENTS, NODES
from tests.integration.controllers.stage import Stage, until
from tests.integration.controllers.test_admission_check import ask, card, half, open_pool, parked, tenant


async def test_a_workload_kept_away_by_the_fit_labels_is_parked_and_told_the_nearest_miss(
    managed: Stage, namespace: str
) -> None:
    kube = managed.kube
    pool, node = await open_pool(managed, cards=2)
    held = [card(pool, node, index, Mode.SLICED, percentage_units(60)) for index in (0, 1)]
    await tenant(kube, namespace, "tenant", node, *held)
    await managed.occupy(node, percent={0: 60, 1: 60})

    async def labelled() -> bool:
        room = labels_of(await kube.get(NODES, node)).get(SLICED_FIT_PREFIX + pool.akey)
        return room == str(percentage_units(40))

    await until("the label shows 40 % on the freest card", labelled, seconds=10)
    await ask(kube, pool, namespace, "half", half())

    workload = await parked(kube, namespace, "half")
    pin = pin_of(workload)
    assert pin is not None
    assert node in pin.why
    assert "50%" in pin.why

    async def announced() -> bool:
        told = await kube.list(EVENTS, namespace_of(workload))
        return any(node in e.get("note", "") for e in told if e["regarding"]["name"] == name_of(workload))

    await until("an event on the Workload says so too", announced, seconds=10)
