"""The cluster's objects, read once, behind the same interface that the controllers read theirs through.

A command that ends in a second needs no watch. But it must ask what the manager asks, with the manager's own functions,
and those read informers; so here are informers that nobody runs, each filled with one list.
"""

from gpustack_ctl.controllers.sources import Sources
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import KubeError, NotFound
from gpustack_ctl.kube.informer import Informer, Informers
from gpustack_ctl.kube.objects import version_of


class NotServedError(KubeError):
    """The cluster has no such kind; the text names it."""


async def snapshot(kube: Kube) -> Sources:
    """Everything that the gates look at, as it is now; raises KubeError. Topologies and namespaces are left empty."""
    sources = Sources.of(Informers(kube))
    for informer in (
        sources.nodes,
        sources.devices,
        sources.pods,
        sources.instance_types,
        sources.settings,
        sources.workloads,
        sources.cluster_queues,
        sources.local_queues,
        sources.flavors,
        sources.checks,
    ):
        await _fill(kube, informer)
    return sources


async def _fill(kube: Kube, informer: Informer) -> None:
    try:
        listed = await kube.list(informer.resource)
    except NotFound:
        resource = informer.resource
        installed = "is Kueue installed?" if "kueue" in resource.group else "has a manager ever run here?"
        raise NotServedError(f"the cluster serves no {resource} {resource.version}: {installed}") from None
    informer.replace(map(informer.kept, listed), max(map(version_of, listed), default=0))
