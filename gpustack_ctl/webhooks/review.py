"""AdmissionReview: the question that the API server asks, and our answer to it.

Only what a decision needs is taken out of the question, and the answer is written straight, because both happen
for every Pod of the cluster that names a queue. A refusal has the shape of the API server's own: code 422,
reason Invalid, one cause per field, so that clients which understand the one understand the other.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gpustack_ctl.accel.field_errors import FieldError
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.webhooks.patch import Operation

_API_VERSION = "admission.k8s.io/v1"


class MalformedReviewError(ValueError):
    """The body is not an AdmissionReview that can be answered; the message says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request of a client, as the API server passes it on."""

    uid: str
    operation: str
    kind: str
    group: str
    #: What is to be stored. Its name may be missing: the API server fills in generateName after admission.
    object: Obj
    #: What is stored now; None on CREATE.
    old: Obj | None = None

    @property
    def name(self) -> str:
        metadata = self.object["metadata"]
        return metadata.get("name") or metadata.get("generateName") or ""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The object may be stored, changed by `patch`."""

    patch: Sequence[Operation] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The object may not be stored: every fault that was found."""

    errors: Sequence[FieldError]


Verdict = Allowed | Refused


def read(body: bytes) -> Question:
    """Raises MalformedReviewError."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as cause:
        raise MalformedReviewError(f"the body is not JSON: {cause}") from cause
    if _part(review, "apiVersion", str) != _API_VERSION or _part(review, "kind", str) != "AdmissionReview":
        raise MalformedReviewError(f"the body is not an AdmissionReview of {_API_VERSION}")
    request = _part(review, "request", dict)
    kind = _part(request, "kind", dict, where="request")
    old = request.get("oldObject")
    return Question(
        uid=_part(request, "uid", str, where="request"),
        operation=_part(request, "operation", str, where="request"),
        kind=_part(kind, "kind", str, where="request.kind"),
        group=_part(kind, "group", str, where="request.kind") if "group" in kind else "",
        object=_object(request, "object"),
        old=None if old is None else _object(request, "oldObject"),
    )


def within(obj: Obj, *names: str) -> Obj:
    """The object that stands at the path `names`. Raises MalformedReviewError.

    The API server has decoded what it asks about, so nothing of it can lack this shape; whoever else asks, may.
    """
    where = "request.object"
    for name in names:
        obj = _part(obj, name, dict, where=where)
        where = f"{where}.{name}"
    return obj


def answer(question: Question, verdict: Verdict) -> bytes:
    """The AdmissionReview to send back."""
    response: dict[str, Any] = {"uid": question.uid}
    if isinstance(verdict, Refused):
        response |= {"allowed": False, "status": _status(question, verdict.errors)}
    else:
        response["allowed"] = True
        if verdict.patch:
            patch = base64.b64encode(orjson.dumps(verdict.patch)).decode()
            response |= {"patchType": "JSONPatch", "patch": patch}
    return orjson.dumps({"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response})


def _status(question: Question, errors: Sequence[FieldError]) -> Obj:
    said = [str(error) for error in errors]
    faults = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    return {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": f'{question.kind} "{question.name}" is invalid: {faults}',
        "details": {
            "name": question.name,
            "group": question.group,
            "kind": question.kind,
            "causes": [_cause(error) for error in errors],
        },
    }


def _cause(error: FieldError) -> Obj:
    # Kubernetes repeats the fault's text without its path: the field has a place of its own here.
    return {
        "reason": error.type.value,
        "message": str(error).removeprefix(f"{error.field}: "),
        "field": error.field,
    }


def _object(request: Obj, key: str) -> Obj:
    """An object of the question, with metadata that can be read."""
    obj: Obj = _part(request, key, dict, where="request")
    metadata = _part(obj, "metadata", dict, where=f"request.{key}")
    for name in ("name", "generateName", "namespace"):
        if metadata.get(name) is not None:
            _part(metadata, name, str, where=f"request.{key}.metadata")
    _texts(metadata, f"request.{key}.metadata")
    return obj


def _texts(metadata: Obj, where: str) -> None:
    for name in ("labels", "annotations"):
        if metadata.get(name) is None:
            continue
        found = _part(metadata, name, dict, where=where)
        if not all(isinstance(value, str) for value in found.values()):
            raise MalformedReviewError(f"{where}.{name} holds a value that is not a string")


def _part(value: Any, key: str, kind: type, *, where: str = "") -> Any:
    path = f"{where}.{key}" if where else key
    if not isinstance(value, dict):
        raise MalformedReviewError(f"{where or 'the body'} is not an object")
    part = value.get(key)
    if not isinstance(part, kind):
        wanted = "an object" if kind is dict else "a string"
        raise MalformedReviewError(f"{path} is {'missing' if part is None else f'not {wanted}'}")
    return part
