"""Writing what a controller owns, and only when it is not so already.

Controllers are woken far more often than they have something to say. Every write therefore compares with the cached
object first, and what the API server answers goes straight back into the cache, so that a controller woken again before
the watch has caught up does not say the same thing twice.
"""

from gpustack_ctl.kube.apply import subset_equal
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, key_of, name_of, uid_of

NODES_AT_ONCE = 16
"""How many nodes a controller writes to at the same time. When a fleet appears, what a write waits for is the API
server's answer; one at a time, a thousand nodes would wait for each other."""


async def settle(kube: Kube, informer: Informer, wanted: Obj, *, manager: str, subresource: str | None = None) -> bool:
    """Make `wanted` so by server-side apply; says whether anything had to be written."""
    live = informer.get(key_of(wanted))
    if live is not None and subset_equal(wanted, live):
        return False
    informer.observe(await kube.apply(informer.resource, wanted, manager=manager, subresource=subresource))
    return True


def part_of(live: Obj) -> Obj:
    """The beginning of an apply to an object that somebody else makes and removes.

    The uid is what keeps an apply from making the object anew when it has gone meanwhile: the API server answers with a
    conflict instead.
    """
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {"name": name_of(live), "uid": uid_of(live)},
    }
