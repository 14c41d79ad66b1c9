"""Whatever JSON a review holds, it is answered or called malformed: nothing else ever comes out."""

from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.webhooks import review
from gpustack_ctl.webhooks.gate1 import Gate1
from gpustack_ctl.webhooks.jobs import job_webhooks
from gpustack_ctl.webhooks.pods import pod_webhooks
from gpustack_ctl.webhooks.review import MalformedReviewError
from tests.gate1.mutations import KEYS, QUANTITIES


class OnePool:
    """Every queue leads to the same pool."""

    def behind(self, queue: str) -> Pool | None:
        return Pool("pool", "nvidia-a10g", "nvidia", memory_mib=24_576, profiles={"1g.10gb": 9_728})


GATE = Gate1(OnePool(), manufacturers())  # type: ignore[arg-type] - no informer is needed to find one pool
WEBHOOKS = (*pod_webhooks(GATE), *job_webhooks(GATE))

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=5)
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)


def mostly(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(strategy, strategy, strategy, ANYTHING)


def record(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional={name: mostly(field) for name, field in fields.items()})


QUANTITY = mostly(st.sampled_from(QUANTITIES))
LIMITS = st.dictionaries(st.sampled_from(KEYS), QUANTITY, max_size=4)
CONTAINER = record(name=st.just("c"), restartPolicy=st.just("Always"), resources=record(limits=LIMITS, requests=LIMITS))
CONTAINERS = st.lists(mostly(CONTAINER), max_size=3)
RULE = record(nodeSelectorTerms=st.lists(mostly(record(matchExpressions=st.lists(ANYTHING, max_size=2))), max_size=2))
NODE = record(requiredDuringSchedulingIgnoredDuringExecution=RULE)
SPEC = record(containers=CONTAINERS, initContainers=CONTAINERS, affinity=record(nodeAffinity=NODE))
METADATA = st.fixed_dictionaries(
    {"labels": st.just({"kueue.x-k8s.io/queue-name": "q"})}, optional={"name": ANYTHING, "annotations": ANYTHING}
)
TEMPLATE = record(metadata=ANYTHING, spec=SPEC)
OBJECT = st.fixed_dictionaries(
    {"metadata": mostly(METADATA)}, optional={"spec": mostly(SPEC | record(template=TEMPLATE, suspend=st.booleans()))}
)


@given(obj=OBJECT, old=st.none() | OBJECT)
def test_any_object_gets_an_answer_or_a_reason(obj: Any, old: Any) -> None:
    body = orjson.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "u", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": obj, "oldObject": old},
        }
    )
    for webhook in WEBHOOKS:
        answered_or_malformed(webhook.decide, body)


@given(anything=ANYTHING)
def test_any_json_at_all_gets_an_answer_or_a_reason(anything: Any) -> None:
    answered_or_malformed(WEBHOOKS[0].decide, orjson.dumps(anything))


@given(body=st.binary(max_size=200))
def test_any_bytes_at_all_get_a_reason(body: bytes) -> None:
    answered_or_malformed(WEBHOOKS[0].decide, body)


def answered_or_malformed(decide: Callable[[review.Question], review.Verdict], body: bytes) -> None:
    try:
        question = review.read(body)
        answer = orjson.loads(review.answer(question, decide(question)))
    except MalformedReviewError as fault:
        assert str(fault)
        return
    assert answer["response"]["uid"] == question.uid
    assert answer["response"]["allowed"] in (True, False)
