"""Which Workloads are ours to hold and to pin: those whose queue leads to a pool of accelerators that we made.

A Kueue may serve other tenants, with queues of their own. A LocalQueue alone proves nothing, since any user may write
one; what it leads to does: a ClusterQueue with our mark, and an InstanceType of the same name with accelerators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.labels import RESOURCE_TYPE, TYPE_INSTANCE_TYPES
from gpustack_ctl.accel.pools import Pool, pool_of

Obj = Mapping[str, Any]


def pool_behind(
    local_queue: Obj | None,
    *,
    cluster_queue_of: Callable[[str], Obj | None],
    instance_type_of: Callable[[str], Obj | None],
    table: Manufacturers,
) -> Pool | None:
    """The accelerated pool of ours that a LocalQueue leads to; None where it leads anywhere else."""
    name = str(((local_queue or {}).get("spec") or {}).get("clusterQueue") or "")
    queue, instance_type = cluster_queue_of(name), instance_type_of(name)
    if queue is None or instance_type is None:
        return None
    if (queue["metadata"].get("labels") or {}).get(RESOURCE_TYPE) != TYPE_INSTANCE_TYPES:
        return None
    pool = pool_of(instance_type, table=table)
    return pool if pool.akey else None
