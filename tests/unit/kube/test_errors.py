"""A refusal becomes the kind of error that a caller can act on."""

import pytest

from gpustack_ctl.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    TooManyRequests,
    error_of,
)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", Invalid),
        (401, "Unauthorized", Forbidden),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ApiError),
    ],
)
def test_the_kind_follows_the_status(code: int, reason: str, kind: type[ApiError]) -> None:
    error = error_of({"code": code, "reason": reason, "message": "because"})
    assert type(error) is kind
    assert isinstance(error, KubeError)
    assert (error.status, error.reason, str(error)) == (code, reason, "because")


def test_an_answer_without_words_still_says_something() -> None:
    assert str(error_of({}, code=503)) == "HTTP 503"
