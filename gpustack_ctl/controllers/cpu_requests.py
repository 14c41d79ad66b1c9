"""CPU requested on each node, kept as a running sum.

A pool's free CPU is what its nodes offer minus what the Pods on them request. Adding that up over all Pods at every
change would cost the size of the cluster; here a Pod's arrival, end or departure moves one number.
"""

from collections import defaultdict
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

from gpustack_ctl.accel.ledger import is_finished
from gpustack_ctl.kube.objects import Obj

_MILLICORES = {
    suffix: Decimal(1000) * scale
    for suffix, scale in {
        **{suffix: Decimal(10) ** power for suffix, power in zip("num kMGTPE", range(-9, 19, 3), strict=True)},
        **{f"{suffix}i": Decimal(1024) ** power for suffix, power in zip("KMGTPE", range(1, 7), strict=True)},
    }.items()
}


class CpuRequests:
    """Millicores requested by the Pods bound to each node; told of every Pod's changes, in order."""

    def __init__(self) -> None:
        self._by_node: dict[str, int] = defaultdict(int)

    def on(self, node: str) -> int:
        """Millicores requested on the node now."""
        return self._by_node.get(node, 0)

    def changed(self, old: Obj | None, new: Obj | None) -> None:
        """A Pod was one thing and is another; None stands for absent."""
        for pod, sign in ((old, -1), (new, +1)):
            node = node_of(pod)
            if pod is not None and node:
                self._by_node[node] += sign * pod_millicores(pod)


def node_of(pod: Obj | None) -> str:
    """The node that a Pod takes CPU from: empty while it is bound to none, and once it has finished."""
    if pod is None or is_finished(pod):
        return ""
    return pod["spec"].get("nodeName") or ""


def pod_millicores(pod: Obj) -> int:
    """What the scheduler counts: the larger of the running containers together and any init container; overhead on top.

    A sidecar (an init container that restarts) runs beside everything that starts after it.
    """
    spec = pod["spec"]
    running = sum(map(_requested, spec.get("containers") or ()))
    sidecars = peak = 0
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars += _requested(container)
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + _requested(container))
    return max(running + sidecars, peak) + millicores((spec.get("overhead") or {}).get("cpu", "0"))


def millicores(quantity: str | int) -> int:
    """A CPU quantity in millicores, rounded up as the scheduler rounds it."""
    return _millicores(str(quantity))


@lru_cache(maxsize=4096)
def _millicores(text: str) -> int:
    number = text.rstrip("numkKMGTPEi")
    suffix = text[len(number) :] or " "
    return int((Decimal(number) * _MILLICORES[suffix]).to_integral_value(ROUND_CEILING))


def _requested(container: Mapping[str, Any]) -> int:
    return millicores(((container.get("resources") or {}).get("requests") or {}).get("cpu", "0"))
