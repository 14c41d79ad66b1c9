"""Gate by gate: what each gate saw, what it answered and what would have to change, read from live objects alone.

A gate leaves its answer where it decided: folded keys on the Pod, conditions and check states on the Workload, the node
in the Pod's spec, the allocation record in its annotations. Reading those back, instead of remembering what happened,
means the explanation is the same for every reader and survives every restart. One file reads one gate.

What would have to change is found by asking the gate's own question again, of the cards as they are now and as they
would be without this Pod or that.
"""

from gpustack_ctl.explain.answers import GATES, Answer, Answered, Explanation
from gpustack_ctl.explain.devices import cards_of_pod
from gpustack_ctl.explain.gates import explain_pod
from gpustack_ctl.explain.webhook import refused_at_creation

__all__ = [
    "GATES",
    "Answer",
    "Answered",
    "Explanation",
    "cards_of_pod",
    "explain_pod",
    "refused_at_creation",
]
