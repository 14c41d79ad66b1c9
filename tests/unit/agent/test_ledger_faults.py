"""What is wrong with the account is said, once, where it is seen."""

from gpustack_ctl.accel.labels import ALLOCATED
from gpustack_ctl.agent.ledger_faults import LedgerFaults
from tests.unit.agent.one_node import a_pod, asks

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}


def _faults(node):
    return LedgerFaults(pods=node.pods, events=node.told, node=NODE)


async def test_an_unreadable_record_is_told_on_pod_and_node_once(a_node):
    node = await a_node()
    pod = a_pod("garbled", asks({"nvidia.com/gpu": 1}))
    pod["metadata"]["annotations"][ALLOCATED] = "{"
    node.put(pod)
    faults = _faults(node)

    faults.look(node.ledger.current)
    faults.look(node.ledger.current)

    assert [kind for kind, _ in node.told.messages] == ["Node", "Pod"]
    assert "every card of nvidia on this node counts as held" in node.told.messages[0][1]
    assert node.modes == [1, 1, 1, 1]


async def test_a_fault_that_comes_back_is_told_again(a_node):
    node = await a_node()
    pod = a_pod("garbled", asks({"nvidia.com/gpu": 1}))
    faults = _faults(node)
    for text in ("{", "{}", "{"):
        node.put({**pod, "metadata": {**pod["metadata"], "annotations": {ALLOCATED: text}}})
        faults.look(node.ledger.current)

    assert [kind for kind, _ in node.told.messages] == ["Node", "Pod"] * 2


async def test_only_a_pod_past_its_admission_misses_its_record(a_node):
    node = await a_node()
    pod = node.put(a_pod("pod", asks({"nvidia.com/gpu": 1})))
    faults = _faults(node)
    faults.look(node.ledger.current)
    assert node.told.messages == []

    node.put({**pod, "metadata": {**pod["metadata"]}, "status": {"phase": "Running"}})
    faults.look(node.ledger.current)

    assert "nothing records: main" in node.told.messages[1][1]
