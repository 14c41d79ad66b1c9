"""An explanation as a person reads it, and as a program does."""

from collections.abc import Iterator
from typing import Any

import orjson

from gpustack_ctl.explain.answers import Answer, Explanation

MARKS = {"passed": "✓", "held": "⏸", "refused": "✗", "waiting": "…", "unknown": "·"}


def document(explanation: Explanation) -> dict[str, Any]:
    """The document of `explain --output json`."""
    return {
        "kind": explanation.kind,
        "namespace": explanation.namespace,
        "name": explanation.name,
        "gates": [
            {
                "gate": answer.gate,
                "name": answer.name,
                "saw": answer.saw,
                "answered": answer.answered,
                "message": answer.message,
                "change": answer.change,
            }
            for answer in explanation.answers
        ],
        "pin": explanation.pin,
        "plan": explanation.plan,
    }


def text(explanation: Explanation) -> Iterator[str]:
    """Lines: each gate with its answer, and under it what it saw, what it said and what would have to change."""
    yield f"{explanation.kind} {explanation.namespace}/{explanation.name}"
    for answer in explanation.answers:
        yield f"{MARKS[answer.answered]} {answer.gate} {answer.name}: {answer.answered}"
        yield from _details(answer)
    if explanation.plan is not None:
        yield f"plan: {_compact(explanation.plan)}"
    if explanation.pin is not None:
        yield f"pin: {_compact(explanation.pin)}"


def _details(answer: Answer) -> Iterator[str]:
    for heading, said in (("saw", answer.saw), ("said", answer.message), ("needs", answer.change)):
        if said:
            yield f"    {heading:5}  {said}"


def _compact(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
