# ruff: noqa: N818 — an error here is named for what happened, as the server's own reasons are
"""What can go wrong between this program and an API server, as types a caller can act on.

Two things are told apart above all: the server answered and refused (`ApiError` and its kinds), or no answer came
(`Unreachable`). Everything is a `KubeError`, so that a caller who can do nothing about either catches one type.
"""

from collections.abc import Mapping
from typing import Any


class KubeError(Exception):
    """Anything that kept a request from succeeding; its text is fit for a user."""


class BadKubeconfig(KubeError):
    """No usable configuration: a file is missing or malformed, or names no such context."""


class Unreachable(KubeError):
    """No answer came from the server: refused, reset, not trusted, or, if `waited`, none in the time there was."""

    def __init__(self, server: str, cause: str, *, waited: bool = False) -> None:
        super().__init__(f"{server} cannot be reached: {cause}")
        self.server = server
        self.cause = cause
        self.waited = waited


class ApiError(KubeError):
    """The server's answer was an error: its HTTP status, the Status object's reason, message and details."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        retry_after: float = 0,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after


class NotFound(ApiError):
    """404: no such object, or no such resource on this server."""


class Conflict(ApiError):
    """409: the object changed since it was read; read again and decide again."""


class AlreadyExists(ApiError):
    """409 on create: somebody made it first."""


class Gone(ApiError):
    """410: the version or continue token asked for is no longer kept; list again."""


class Forbidden(ApiError):
    """401 or 403: the server knows who asks and says no, or does not accept who asks."""


class Invalid(ApiError):
    """422, or 400: the server refused the object's content."""


class TooManyRequests(ApiError):
    """429: the server asks for patience, and kept asking."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def error_of(status: Mapping[str, Any], *, code: int = 0, retry_after: float = 0) -> ApiError:
    """The error a Status object tells of. `code` is the HTTP status, where the object names none."""
    code = int(status.get("code") or code)
    reason = str(status.get("reason") or "")
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(code, ApiError)
    message = str(status.get("message") or reason or f"HTTP {code}")
    return kind(code, reason, message, status.get("details"), retry_after=retry_after)
