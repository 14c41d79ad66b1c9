"""Where an object keeps its Pod templates, and which label puts them before gate 1.

The gate looks at Pods, and at Jobs because Kueue takes a Job's requests from its template. Of every other kind it meets
the Pods, so their template's own label counts: the one that a Deployment carries itself stays on the Deployment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel.labels import KUEUE_QUEUE_NAME

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A Pod spec, the field path at which it stands, and the queue that it asks for; None when it asks for none."""

    at: str
    spec: Mapping[str, Any]
    queue: str | None


class TemplateError(ValueError):
    """The object cannot hold a Pod template as it is: the field, and what belongs there."""


@dataclass(frozen=True, slots=True)
class _Place:
    """`template` leads to the template; `labelled` to what may name the queue, the first that does being believed."""

    template: Path
    labelled: tuple[Path, ...]
    optional: bool = False


def templates_of(obj: Mapping[str, Any]) -> Iterator[Template]:
    """The Pod templates of an object; none for a kind that has none. Raises TemplateError."""
    group = str(obj.get("apiVersion") or "").rpartition("/")[0]
    for place in _PLACES.get((group, obj["kind"])) or _guessed(obj):
        template = _at(obj, place.template)
        if template is None and place.optional:
            continue
        path = (*place.template, "spec")
        spec = _at(obj, path)
        if spec is None:
            raise TemplateError(f"{'.'.join(path)}: Required value: write what the Pods run")
        yield Template(".".join(path), spec, _queue(obj, place))


def _queue(obj: Mapping[str, Any], place: _Place) -> str | None:
    for owner in place.labelled:
        labels = _at(obj, (*owner, "metadata", "labels")) or {}
        if queue := labels.get(KUEUE_QUEUE_NAME):
            return str(queue)
    return None


def _at(obj: Mapping[str, Any], path: Path) -> Mapping[str, Any] | None:
    found = obj
    for depth, name in enumerate(path, start=1):
        value = found.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise TemplateError(f"{'.'.join(path[:depth])}: Invalid value: must be an object")
        found = value
    return found


def _guessed(obj: Mapping[str, Any]) -> tuple[_Place, ...]:
    """Somebody's own kind that keeps a template where most kinds do."""
    spec = obj
    for name in ("spec", "template", "spec"):
        spec = spec.get(name) or {}
        if not isinstance(spec, Mapping):
            return ()
    return (_IN_SPEC,) if isinstance(spec.get("containers"), list) else ()


_TEMPLATE = ("spec", "template")
_IN_SPEC = _Place(_TEMPLATE, (_TEMPLATE,))
_CRON = ("spec", "jobTemplate")
_GROUP = ("spec", "leaderWorkerTemplate")

_PLACES: Mapping[tuple[str, str], tuple[_Place, ...]] = {
    ("", "Pod"): (_Place((), ((),)),),
    ("", "PodTemplate"): (_Place(("template",), (("template",),)),),
    ("", "ReplicationController"): (_IN_SPEC,),
    ("apps", "DaemonSet"): (_IN_SPEC,),
    ("apps", "Deployment"): (_IN_SPEC,),
    ("apps", "ReplicaSet"): (_IN_SPEC,),
    ("apps", "StatefulSet"): (_IN_SPEC,),
    ("batch", "Job"): (_Place(_TEMPLATE, ((), _TEMPLATE)),),
    ("batch", "CronJob"): (_Place((*_CRON, *_TEMPLATE), (_CRON, (*_CRON, *_TEMPLATE))),),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): tuple(
        _Place((*_GROUP, name), ((*_GROUP, name),), optional=name == "leaderTemplate")
        for name in ("leaderTemplate", "workerTemplate")
    ),
}
