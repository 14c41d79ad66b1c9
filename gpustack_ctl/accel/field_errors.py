"""A fault in a field, said the way Kubernetes says it.

Users meet these next to the API server's own refusals, so the form is the same: the path, the kind of fault, the value
that was found, and what to write instead.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum


class FaultType(StrEnum):
    """The kinds of fault, by the names that a Status' causes carry."""

    INVALID = "FieldValueInvalid"
    REQUIRED = "FieldValueRequired"
    FORBIDDEN = "FieldValueForbidden"
    NOT_SUPPORTED = "FieldValueNotSupported"


_SPOKEN = {
    FaultType.INVALID: "Invalid value",
    FaultType.REQUIRED: "Required value",
    FaultType.FORBIDDEN: "Forbidden",
    FaultType.NOT_SUPPORTED: "Unsupported value",
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault. `value` is None where the kind of fault has none to show. `retryable`: time may mend it."""

    field: str
    type: FaultType
    value: str | None
    message: str
    retryable: bool = False

    def __str__(self) -> str:
        shown = "" if self.value is None else f": {json.dumps(self.value, ensure_ascii=False)}"
        return f"{self.field}: {_SPOKEN[self.type]}{shown}: {self.message}"


def invalid(field: str, value: object, message: str, *, retryable: bool = False) -> FieldError:
    return FieldError(field, FaultType.INVALID, clipped(value), message, retryable)


def required(field: str, message: str, *, retryable: bool = False) -> FieldError:
    return FieldError(field, FaultType.REQUIRED, None, message, retryable)


def forbidden(field: str, message: str) -> FieldError:
    return FieldError(field, FaultType.FORBIDDEN, None, message)


def not_supported(field: str, value: object, message: str) -> FieldError:
    return FieldError(field, FaultType.NOT_SUPPORTED, clipped(value), message)


def clipped(value: object, longest: int = 80) -> str:
    """A value as a message can show it: whoever wrote a megabyte knows which one."""
    text = str(value)
    return text if len(text) <= longest else f"{text[:longest]}…"
