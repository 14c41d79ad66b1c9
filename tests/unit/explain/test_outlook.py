"""What gate 3 would say now: on the nodes that were assigned, or anywhere in the pool."""

from typing import Any, cast

from gpustack_ctl.accel.families import Mode, manufacturers
from gpustack_ctl.accel.labels import ALLOCATED, PLACEMENT_PIN
from gpustack_ctl.accel.pins import Pin, format_pin
from gpustack_ctl.accel.pools import pool_of
from gpustack_ctl.accel.records import Entry, format_record
from gpustack_ctl.accel.units import M
from gpustack_ctl.controllers.fleet import Fleet
from gpustack_ctl.explain.check import Outlook
from gpustack_ctl.explain.credits import Place
from gpustack_ctl.explain.outlook import Surroundings, outlook
from gpustack_ctl.kube.client import Kube
from tests.unit.explain.cluster import devices, flavor, instance_type, node, sources
from tests.unit.explain.objects import FLAVOR, QUEUE, cluster_queue, local_queue, pod, workload

TABLE = manufacturers()
POOL = pool_of(instance_type(QUEUE), table=TABLE)
WHOLE_TWO = {"nvidia.com/gpu": "2"}
PARKED = "excluded: affinity"


def holder(name: str, on: str, index: int, units: int = M) -> Any:
    mode = Mode.EXCLUSIVE if units == M else Mode.SLICED
    entry = Entry("a10g", "nvidia", f"{on}-{index}", index, mode, units)
    return pod(name, queue="", limits={}, nodeName=on, annotations={ALLOCATED: format_record({"main": (entry,)})})


def ask(judged: Any, *, nodes: dict[str, int], pods: list[Any], others: tuple[Any, ...] = ()) -> Outlook | None:
    """The outlook of a Workload in a cluster of such nodes; their Pods hold what their records say."""
    queue = cluster_queue(cards=8)
    quota = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    counts = sorted(set(nodes.values()))
    names = {count: FLAVOR if len(counts) == 1 else f"a10g-{count}d" for count in counts}
    queue["spec"]["resourceGroups"][0]["flavors"] = [{"name": name, "resources": quota} for name in names.values()]
    held = sources(
        nodes=[node(name, cards=cards) for name, cards in nodes.items()],
        devices=[devices(name, cards=cards) for name, cards in nodes.items()],
        pods=pods,
        flavors=[flavor(name, cards=count) for count, name in names.items()],
        workloads=[judged, *others],
    )
    nobody = cast(Kube, None)  # an outlook reads what was read already
    around = Surroundings(held, Fleet(kube=nobody, sources=held, table=TABLE), TABLE)
    return outlook(judged, Place(local_queue(), queue, instance_type(QUEUE), POOL), around)


def test_on_the_assigned_node_every_card_is_shown_with_who_holds_it() -> None:
    held = [holder("a", "gpu-1", 0), holder("b", "gpu-1", 1, M * 6 // 10)]
    found = ask(workload(), nodes={"gpu-1": 2}, pods=held)
    assert found is not None and not found.fits
    assert found.saw == "node gpu-1: gpu-1-0 held whole by Pod team/a, gpu-1-1 sliced 60% by Pod team/b"
    assert found.message.startswith("node gpu-1 needs a slice of 50%")
    assert found.change == "1 more free card on gpu-1 (say gpu-1-1); or the end of Pod team/b or of Pod team/a"


def test_another_node_with_room_is_named() -> None:
    found = ask(workload(), nodes={"gpu-1": 1, "gpu-2": 1}, pods=[holder("a", "gpu-1", 0)])
    assert found is not None and not found.fits
    assert found.change.endswith("; or Kueue to place it on gpu-2, where there is room now")


def test_room_that_was_made_since_is_no_hold_any_more() -> None:
    found = ask(workload(), nodes={"gpu-1": 1}, pods=[])
    assert found == Outlook(
        True, "every Pod has its accelerators", "node gpu-1: gpu-1-0 free", "nothing: the cards have room now"
    )


def test_without_a_reservation_the_whole_pool_is_looked_at() -> None:
    held = [holder("a", "gpu-1", 0), holder("b", "gpu-2", 0, M * 6 // 10)]
    found = ask(workload(reserved=PARKED), nodes={"gpu-1": 1, "gpu-2": 1}, pods=held)
    assert found is not None and not found.fits
    assert found.saw.startswith("node gpu-2: gpu-2-0 sliced 60% by Pod team/b; node gpu-1:")
    assert found.change.startswith("1 more free card on gpu-2 (say gpu-2-0); or the end of Pod team/b")


def test_a_flavor_whose_nodes_are_too_small_is_not_the_one_to_wait_for() -> None:
    held = [holder("a", "big", 0)]
    judged = workload(reserved=PARKED, limits=WHOLE_TWO)
    found = ask(judged, nodes={"small": 1, "big": 2}, pods=held)
    assert found is not None
    assert found.change == "1 more free card on big (say big-0); or the end of Pod team/a"


def test_what_no_node_can_ever_hold_says_so() -> None:
    found = ask(workload(reserved=PARKED, limits={"nvidia.com/gpu": "3"}), nodes={"gpu-1": 2}, pods=[])
    assert found is not None
    assert found.change == ("other nodes, or a smaller request: gpu-1 could not hold it with every card free")


def test_a_card_promised_to_a_workload_that_was_told_ready_is_taken() -> None:
    first = workload(state={"state": "Ready"}, limits={"nvidia.com/gpu": "1"})
    first["metadata"] |= {"name": "pod-first", "uid": "uid-first", "ownerReferences": []}
    found = ask(workload(), nodes={"gpu-1": 1}, pods=[], others=(first,))
    assert found is not None
    assert found.saw == "node gpu-1: gpu-1-0 held whole by Workload team/pod-first"


def test_a_node_that_is_kept_for_another_is_shown_as_kept() -> None:
    old = workload(reserved=PARKED, annotations={PLACEMENT_PIN: format_pin(Pin(since="09:00", reserved=("gpu-1",)))})
    old["metadata"] |= {"name": "pod-old", "uid": "uid-old"}
    found = ask(workload(reserved=PARKED), nodes={"gpu-1": 1}, pods=[], others=(old,))
    assert found is not None
    assert found.saw.endswith("; gpu-1 kept for Workload team/pod-old, which waits since 09:00")


def test_a_workload_without_accelerators_is_not_judged() -> None:
    assert ask(workload(limits={"cpu": "1"}), nodes={"gpu-1": 1}, pods=[]) is None
