"""The pool behind a queue-name, from the informer's copy of the InstanceTypes.

The look-up goes by the label that names a type's entrance and never by the LocalQueue: a user may write a
LocalQueue, and with it would choose the memory that his own share is measured against.
"""

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.pools import Pool, fronting, pool_of
from gpustack_ctl.kube.informer import Informer, Informers
from gpustack_ctl.kube.objects import Obj, labels_of
from gpustack_ctl.kube.resources import INSTANCE_TYPES

_BY_ENTRANCE = "entrance"


class Pools:
    """Pools by the name of their entrance."""

    def __init__(self, informers: Informers, table: Manufacturers) -> None:
        self._types: Informer = informers.of(INSTANCE_TYPES)
        self._types.add_index(_BY_ENTRANCE, _entrance)
        self._table = table

    @property
    def synced(self) -> bool:
        """Whether a pool that is not found is one that does not exist."""
        return self._types.synced

    def behind(self, queue: str) -> Pool | None:
        """The pool that the entrance `queue` leads to; None when no InstanceType says so (yet)."""
        found = fronting(self._types.by_index(_BY_ENTRANCE, queue), queue)
        return None if found is None else pool_of(found, table=self._table)


def _entrance(instance_type: Obj) -> list[str]:
    entrance = labels_of(instance_type).get(labels.QUEUE_ENTRANCE)
    return [entrance] if entrance else []
