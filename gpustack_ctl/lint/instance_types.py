"""The pools to judge by: InstanceTypes out of a file or a cluster, found as the webhook finds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.labels import QUEUE_ENTRANCE
from gpustack_ctl.accel.naming import entrance_name
from gpustack_ctl.accel.pools import Pool, fronting, pool_of
from gpustack_ctl.lint.manifests import Manifest, ManifestError


class InstanceTypes:
    """Pools by their entrance, read once: a thousand Pods of one queue ask for one pool."""

    def __init__(self, instance_types: Iterable[Mapping[str, Any]], *, table: Manufacturers) -> None:
        claiming: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for found in instance_types:
            claiming[_entrance(found)].append(found)
        self._pools = {
            queue: pool_of(chosen, table=table)
            for queue, found in claiming.items()
            if (chosen := fronting(found, queue)) is not None
        }

    @classmethod
    def of(cls, manifests: Iterable[Manifest], *, table: Manufacturers) -> InstanceTypes:
        """Out of a file, which may hold nothing else. Raises ManifestError."""
        return cls([_checked(manifest) for manifest in manifests], table=table)

    def behind(self, queue: str) -> Pool | None:
        """The pool that the entrance `queue` leads to."""
        return self._pools.get(queue)


def _entrance(instance_type: Mapping[str, Any]) -> str:
    """Its label; in a manifest that has never been sent, what the label will be."""
    metadata = instance_type["metadata"]
    return (metadata.get("labels") or {}).get(QUEUE_ENTRANCE) or entrance_name(metadata["name"])


def _checked(manifest: Manifest) -> Mapping[str, Any]:
    obj = manifest.object
    if obj["kind"] != "InstanceType":
        raise ManifestError(manifest.source, manifest.line, f"kind {obj['kind']}: write InstanceTypes only")
    for path in (("metadata",), ("metadata", "labels"), ("spec",), ("status",), ("status", "detail")):
        value: Any = obj
        for name in path:
            value = value.get(name) or {}
        if not isinstance(value, Mapping):
            raise ManifestError(manifest.source, manifest.line, f"{'.'.join(path)}: must be an object")
    if not isinstance(obj["metadata"].get("name"), str):
        raise ManifestError(manifest.source, manifest.line, "metadata.name: Required value: write the pool's name")
    return obj
