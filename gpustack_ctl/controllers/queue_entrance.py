"""Queue entrances: one LocalQueue per pool in every namespace where people work.

Owns the LocalQueues named after our ClusterQueues' entrances. The name is a hash, since it travels as a label value;
the full queue name stands in an annotation. `spec.clusterQueue` cannot be changed, so an entrance that leads elsewhere
is removed and made again: it would be charged to one pool by Kueue and to another by the Pod webhook. Namespaces of
the system itself get none.

Woken by ClusterQueues and Namespaces that come and go, and by LocalQueues.
"""

from collections.abc import Iterable

import structlog

from gpustack_ctl.accel.labels import QUEUE, RESOURCE_TYPE, TYPE_INSTANCE_TYPES
from gpustack_ctl.accel.naming import entrance_name
from gpustack_ctl.accel.queues import local_queue
from gpustack_ctl.controllers.sources import spec_changed
from gpustack_ctl.controllers.writes import settle
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, changes
from gpustack_ctl.kube.errors import ApiError, Forbidden, NotFound
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, annotations_of, deleting, labels_of, name_of, split_key, uid_of
from gpustack_ctl.kube.resources import LOCAL_QUEUES

log = structlog.get_logger()

MANAGER = "gpustack-queue-entrance"
SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease", "kueue-system"})


class QueueEntrance(Controller):
    """Keys are `namespace/entrance`: the LocalQueue's own. `own_namespace` is where the manager itself lives."""

    name = "queue-entrance"
    workers = 4

    def __init__(
        self, *, kube: Kube, cluster_queues: Informer, local_queues: Informer, namespaces: Informer, own_namespace: str
    ) -> None:
        self._kube = kube
        self._cluster_queues = cluster_queues
        self._local_queues = local_queues
        self._namespaces = namespaces
        self._closed = SYSTEM_NAMESPACES | {own_namespace}
        cluster_queues.add_index("entrance", _entrance)

    def wakes(self) -> Iterable[Wake]:
        yield changes(self._cluster_queues, key=self._in_every_namespace, when=_existence_changed)
        yield changes(self._namespaces, key=self._of_every_queue, when=_existence_changed)
        yield changes(self._local_queues, when=spec_changed)

    async def reconcile(self, key: str) -> Result:
        namespace, entrance = split_key(key)
        live = self._local_queues.get(key)
        queue = next(iter(self._cluster_queues.by_index("entrance", entrance)), None)
        if queue is None or deleting(queue) or not self._open(namespace):
            if live is not None and QUEUE in annotations_of(live):
                await self._remove(live)
            return DONE
        wanted = local_queue(name_of(queue), str(namespace))
        if live is not None and live["spec"].get("clusterQueue") != wanted["spec"]["clusterQueue"]:
            log.warning("an entrance led to another queue: making it again", local_queue=key, queue=name_of(queue))
            await self._remove(live)
            return DONE  # its deletion wakes this key
        if live is None or not deleting(live):
            await self._settle(wanted)
        return DONE

    async def _settle(self, wanted: Obj) -> None:
        """Make the entrance so, unless its namespace has begun to end, or has ended, since we heard of it."""
        try:
            await settle(self._kube, self._local_queues, wanted, manager=MANAGER)
        except (Forbidden, NotFound) as refusal:
            if not _namespace_ends(refusal):
                raise

    def _open(self, name: str | None) -> bool:
        namespace = self._namespaces.get(name) if name and name not in self._closed else None
        return namespace is not None and not deleting(namespace)

    async def _remove(self, live: Obj) -> None:
        if not deleting(live):
            await self._kube.delete(LOCAL_QUEUES, name_of(live), live["metadata"]["namespace"], uid=uid_of(live))

    def _in_every_namespace(self, queue: Obj) -> list[str]:
        return [f"{name_of(space)}/{entrance}" for entrance in _entrance(queue) for space in self._namespaces.list()]

    def _of_every_queue(self, namespace: Obj) -> list[str]:
        queues = self._cluster_queues.list()
        return [f"{name_of(namespace)}/{entrance}" for queue in queues for entrance in _entrance(queue)]


def _namespace_ends(refusal: ApiError) -> bool:
    """Whether the API server refuses because the namespace is ending, which is a cause, or gone, which is a kind."""
    causes = refusal.details.get("causes") or ()
    return refusal.details.get("kind") == "namespaces" or any(
        cause.get("reason") == "NamespaceTerminating" for cause in causes
    )


def _entrance(queue: Obj) -> tuple[str, ...]:
    """The entrance's name, for a queue of ours."""
    return (entrance_name(name_of(queue)),) if labels_of(queue).get(RESOURCE_TYPE) == TYPE_INSTANCE_TYPES else ()


def _existence_changed(old: Obj | None, new: Obj | None) -> bool:
    return old is None or new is None or deleting(old) != deleting(new)
