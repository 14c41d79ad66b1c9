"""What a ClusterQueue has left: nominal quota less reservations, by flavor and resource."""

from typing import Any

from gpustack_ctl.controllers.quotas import Quota, quotas_of

CREDITS = "credits.gpustack.ai/nvidia"


def flavor(name: str, **resource: Any) -> dict[str, Any]:
    return {"name": name, "resources": [{"name": CREDITS, **resource}]}


def queue(*planned: dict[str, Any], reserved: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"spec": {"resourceGroups": [{"flavors": list(planned)}]}, "status": {"flavorsReservation": list(reserved)}}


def test_what_is_reserved_is_not_left() -> None:
    held = queue(
        flavor("a", nominalQuota="6400k"), flavor("b", nominalQuota="10"), reserved=(flavor("a", total="1600k"),)
    )
    assert [*quotas_of(held)] == [Quota("a", CREDITS, 6_400_000, 4_800_000), Quota("b", CREDITS, 10, 10)]


def test_a_queue_whose_nodes_went_has_nothing_left_and_owes_nothing() -> None:
    assert [*quotas_of(queue(flavor("a", nominalQuota="10"), reserved=(flavor("a", total="30"),)))] == [
        Quota("a", CREDITS, 10, 0)
    ]


def test_a_queue_without_groups_or_with_an_unreadable_quota_has_none() -> None:
    assert [*quotas_of({"spec": {}})] == []
    assert [*quotas_of(queue(flavor("a", nominalQuota="1.5")))] == []
