"""The few words of OpenAPI that our resources are written in.

A CustomResourceDefinition is mostly repetition: every list needs a merge rule, every number a format, every
quantity the same four lines. Saying each of them once keeps the resource modules readable as what they are, a
list of fields and what each field means, and makes forgetting a merge rule impossible: a list is either keyed
or replaced whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

# What the API server's own types accept for resource.Quantity, without the exponents nobody writes for a GPU.
_QUANTITY = r"^[+-]?([0-9]+|[0-9]+\.[0-9]+|[0-9]+\.|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$"


def text(description: str, *, longest: int | None = None, pattern: str | None = None) -> Schema:
    schema: Schema = {"type": "string", "description": description}
    if longest is not None:
        schema["maxLength"] = longest
    if pattern is not None:
        schema["pattern"] = pattern
    return schema


def one_of(description: str, values: Sequence[str]) -> Schema:
    return {"type": "string", "description": description, "enum": list(values)}


def integer(description: str, *, least: int = 0, most: int | None = None) -> Schema:
    schema: Schema = {"type": "integer", "format": "int64", "description": description, "minimum": least}
    if most is not None:
        schema["maximum"] = most
    return schema


def boolean(description: str, *, default: bool | None = None) -> Schema:
    schema: Schema = {"type": "boolean", "description": description}
    if default is not None:
        schema["default"] = default
    return schema


def moment(description: str) -> Schema:
    return {"type": "string", "format": "date-time", "description": description}


def quantity(description: str) -> Schema:
    """A Kubernetes quantity: `4`, `"500m"`, `24576Mi`."""
    return {
        "description": description,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": _QUANTITY,
        "x-kubernetes-int-or-string": True,
    }


def record(
    description: str,
    fields: Mapping[str, Schema],
    *,
    required: Sequence[str] = (),
    rules: Sequence[Mapping[str, Any]] = (),
) -> Schema:
    schema: Schema = {"type": "object", "description": description, "properties": dict(fields)}
    if required:
        schema["required"] = list(required)
    if rules:
        schema["x-kubernetes-validations"] = [dict(rule) for rule in rules]
    return schema


def table(description: str, row: Schema, *, keys: Sequence[str], most: int | None = None) -> Schema:
    """A list whose rows have an identity: server-side apply merges it row by row and refuses a repeated key."""
    schema: Schema = {
        "type": "array",
        "description": description,
        "items": row,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
    }
    if most is not None:
        schema["maxItems"] = most
    return schema


def sequence(description: str, item: Schema) -> Schema:
    """A list that is one value: whoever writes it writes all of it."""
    return {"type": "array", "description": description, "items": item, "x-kubernetes-list-type": "atomic"}
