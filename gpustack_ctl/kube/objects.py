"""Reading what every Kubernetes object carries: its name, labels, version and conditions.

Objects come from other people's hands and may lack any of it, so each reader answers with an empty value instead of
failing; only a name is certain, because the API server refuses an object without one.
"""

from collections.abc import Mapping
from typing import Any

Obj = dict[str, Any]
Objs = list[Obj]


def name_of(obj: Obj) -> str:
    name: str = obj["metadata"]["name"]
    return name


def namespace_of(obj: Obj) -> str:
    """The object's namespace, empty for a cluster-scoped one."""
    return obj["metadata"].get("namespace") or ""


def key_of(obj: Obj) -> str:
    """``namespace/name``, or ``name`` alone for a cluster-scoped object: the key of stores and queues."""
    metadata = obj["metadata"]
    namespace, name = metadata.get("namespace"), metadata["name"]
    return f"{namespace}/{name}" if namespace else name


def split_key(key: str) -> tuple[str | None, str]:
    """A key's namespace (None when cluster-scoped) and name."""
    namespace, slash, name = key.rpartition("/")
    return (namespace if slash else None), name


def labels_of(obj: Obj) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Obj) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


def uid_of(obj: Obj) -> str:
    return obj["metadata"].get("uid") or ""


def version_of(obj: Obj) -> int:
    """The object's resourceVersion as the number it is; 0 when it has none. A later write has the larger number."""
    version = obj["metadata"].get("resourceVersion")
    return int(version) if version else 0


def deleting(obj: Obj) -> bool:
    """Whether deletion was asked for; the object may live on until finalizers or a grace period have passed."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def condition(obj: Obj, kind: str) -> Obj | None:
    """The status condition of that type, or None."""
    for found in (obj.get("status") or {}).get("conditions") or ():
        if found.get("type") == kind:
            return dict(found)
    return None


def is_true(obj: Obj, kind: str) -> bool:
    """Whether the status condition of that type says True."""
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"
