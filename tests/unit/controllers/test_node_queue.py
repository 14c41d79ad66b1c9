"""Which stop was ours, and when two lists of groups say the same."""

from typing import Any

from gpustack_ctl.controllers.node_queue import APPLIED_STOP_POLICY, policy_of, same_groups, stopped_by_hand


def queue(policy: str | None, applied: str | None) -> dict[str, Any]:
    annotations = {} if applied is None else {APPLIED_STOP_POLICY: applied}
    return {"metadata": {"name": "q", "annotations": annotations}, "spec": {"stopPolicy": policy} if policy else {}}


def test_a_stop_that_differs_from_the_one_noted_was_made_by_hand() -> None:
    assert stopped_by_hand(queue("Hold", "None"))
    assert stopped_by_hand(queue("HoldAndDrain", "Hold"))
    assert not stopped_by_hand(queue("Hold", "Hold"))
    assert not stopped_by_hand(queue("None", "Hold")), "somebody started it: our stop is put back, nothing is mirrored"
    assert not stopped_by_hand(queue(None, "None"))
    assert not stopped_by_hand(queue("Hold", None)), "without a note nothing is blamed on anybody"
    assert policy_of(queue(None, None)) == "None"


def groups(*quotas: str) -> list[dict[str, Any]]:
    flavors = [
        {"name": f"f{n}", "resources": [{"name": "cpu", "nominalQuota": quota}]} for n, quota in enumerate(quotas)
    ]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


def test_quotas_are_compared_by_value_and_flavors_in_order() -> None:
    assert same_groups(groups("6400000"), groups("6400k"))
    assert not same_groups(groups("6400000"), groups("6400001"))
    assert not same_groups(groups("1", "2"), groups("2", "1"))
    assert not same_groups(groups("1"), groups("500m"))
    assert not same_groups(groups("1"), [])
