"""JSON Patch (RFC 6902) from one JSON document to another, as short as the change.

A webhook's patch is applied to whatever the webhooks before it left, and read by people in audit logs. Both are
served by naming just the keys that change instead of replacing the Pod.
"""

from typing import Any

Operation = dict[str, Any]


def difference(old: Any, new: Any, path: str = "") -> list[Operation]:
    """The operations that turn `old`, standing at `path`, into `new`."""
    if old is new or old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        return _of_records(old, new, path)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            operation
            for index, (before, after) in enumerate(zip(old, new, strict=True))
            for operation in difference(before, after, f"{path}/{index}")
        ]
    return [{"op": "replace", "path": path, "value": new}]


def pointer(path: str, key: str) -> str:
    """The JSON Pointer of `key` below `path`."""
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"


def _of_records(old: dict[str, Any], new: dict[str, Any], path: str) -> list[Operation]:
    operations: list[Operation] = [{"op": "remove", "path": pointer(path, key)} for key in old if key not in new]
    for key, value in new.items():
        if key in old:
            operations += difference(old[key], value, pointer(path, key))
        else:
            operations.append({"op": "add", "path": pointer(path, key), "value": value})
    return operations
