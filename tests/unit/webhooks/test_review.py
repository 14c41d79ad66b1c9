import base64
from typing import Any

import orjson
import pytest

from gpustack_ctl.accel.field_errors import invalid, required
from gpustack_ctl.webhooks import review
from gpustack_ctl.webhooks.review import Allowed, MalformedReviewError, Refused


def body(**request: Any) -> bytes:
    asked = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "object": {"metadata": {"name": "half-a"}},
        **request,
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked})


def answered(verdict: review.Verdict) -> dict[str, Any]:
    answer = orjson.loads(review.answer(review.read(body()), verdict))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = answer["response"]
    assert response["uid"] == "u-1"
    return response


def test_a_question_is_read():
    question = review.read(body(oldObject={"metadata": {"name": "half-a"}}, operation="UPDATE"))
    assert (question.uid, question.operation, question.kind, question.name) == ("u-1", "UPDATE", "Pod", "half-a")
    assert question.old == {"metadata": {"name": "half-a"}}


def test_a_pod_without_a_name_goes_by_its_generate_name():
    assert review.read(body(object={"metadata": {"generateName": "half-"}})).name == "half-"


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"", "not JSON"),
        (b"\x16\x03\x01", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "the body is not an object"),
        (b"{}", "apiVersion is missing"),
        (orjson.dumps({"apiVersion": "v1", "kind": "Pod"}), "not an AdmissionReview"),
        (orjson.dumps({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}), "not an AdmissionReview"),
        (orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}), "request is missing"),
        (body(uid=7), "request.uid is not a string"),
        (body(object=None), "request.object is missing"),
        (body(object=[1]), "request.object is not an object"),
        (body(object={}), "request.object.metadata is missing"),
        (body(kind="Pod"), "request.kind is not an object"),
        (body(oldObject="x"), "request.oldObject is not an object"),
    ],
)
def test_a_malformed_review_is_refused_with_its_reason(sent, reason):
    with pytest.raises(MalformedReviewError, match=reason):
        review.read(sent)


def test_an_allowed_object_without_a_change_carries_no_patch():
    assert answered(Allowed()) == {"uid": "u-1", "allowed": True}


def test_a_change_is_a_json_patch():
    operations = [{"op": "add", "path": "/spec/x", "value": 1}]
    response = answered(Allowed(operations))
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    assert orjson.loads(base64.b64decode(response["patch"])) == operations


def test_a_refusal_looks_like_the_api_servers_own():
    errors = [invalid("spec.a", "2", "write 1"), required("spec.b", "name a profile")]
    status = answered(Refused(errors))["status"]
    assert (status["code"], status["reason"], status["status"]) == (422, "Invalid", "Failure")
    assert status["message"] == (
        'Pod "half-a" is invalid: [spec.a: Invalid value: "2": write 1, spec.b: Required value: name a profile]'
    )
    assert status["details"]["causes"] == [
        {"field": "spec.a", "reason": "FieldValueInvalid", "message": 'Invalid value: "2": write 1'},
        {"field": "spec.b", "reason": "FieldValueRequired", "message": "Required value: name a profile"},
    ]


def test_one_fault_is_said_without_brackets():
    status = answered(Refused([invalid("spec.a", "2", "write 1")]))["status"]
    assert status["message"] == 'Pod "half-a" is invalid: spec.a: Invalid value: "2": write 1'
