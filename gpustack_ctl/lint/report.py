"""Findings as a person reads them, and as a program does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpustack_ctl.accel.labels import KUEUE_QUEUE_NAME
from gpustack_ctl.lint.judge import Finding

_INDENT = "    "


def document(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """One object per Pod template. `container` holds the limits that it would be stored with."""
    return [_entry(finding) for finding in findings]


def text(findings: Sequence[Finding]) -> Iterator[str]:
    """Lines: each template with what gate 1 adds to it, or with what is wrong with it, and a count at the end."""
    for finding in findings:
        yield f"{finding.source}:{finding.line}: {_named(finding)}: {_verdict(finding)}"
        yield from (_INDENT + line for line in _reasons(finding))
    refused = sum(not finding.admitted for finding in findings)
    unseen = sum(finding.judgement is None for finding in findings)
    yield f"{len(findings) - refused - unseen} admitted, {refused} refused, {unseen} not looked at"


def _entry(finding: Finding) -> dict[str, Any]:
    spec = finding.judgement.spec if finding.judgement else finding.template.spec
    return {
        "source": finding.source,
        "line": finding.line,
        "kind": finding.kind,
        "namespace": finding.namespace,
        "name": finding.name,
        "applies": finding.judgement is not None,
        "admitted": finding.admitted,
        "container": _limits(spec) if finding.admitted else {},
        "affinity": spec.get("affinity") if finding.admitted else None,
        "errors": [
            {"field": error.field, "type": error.type.value, "value": error.value, "message": error.message}
            for error in (finding.judgement.errors if finding.judgement else ())
        ],
    }


def _named(finding: Finding) -> str:
    where = finding.template.at.removesuffix("spec").removesuffix(".")
    namespace = f"{finding.namespace}/" if finding.namespace else ""
    return f"{finding.kind} {namespace}{finding.name}" + (f" ({where})" if where else "")


def _verdict(finding: Finding) -> str:
    if finding.judgement is None:
        return f"not looked at, for want of a label {KUEUE_QUEUE_NAME} on {_labelled(finding)}"
    return "admitted" if finding.admitted else "refused"


def _labelled(finding: Finding) -> str:
    return {"Pod": "the Pod", "Job": "the Job", "CronJob": "its jobTemplate"}.get(finding.kind, "its Pod template")


def _reasons(finding: Finding) -> Iterator[str]:
    if finding.judgement is None:
        return
    if finding.judgement.errors:
        yield from map(str, finding.judgement.errors)
        return
    before, after = finding.template.spec, finding.judgement.spec
    written = _limits(before)
    for container, limits in _limits(after).items():
        for key, value in limits.items():
            if written.get(container, {}).get(key) != value:
                yield f"{container}: {key}: {value}"
    if after.get("affinity") != before.get("affinity"):
        yield "affinity: nodes with as many cards as the shares need"


def _limits(spec: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The limits of each container that has any, as text."""
    found = {}
    for section in ("initContainers", "containers"):
        for container in _list(spec.get(section)):
            limits = _mapping(_mapping(_mapping(container).get("resources")).get("limits"))
            if limits:
                found[str(_mapping(container).get("name", ""))] = {str(key): str(limits[key]) for key in limits}
    return found


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
