"""Finding what was asked about: the object by its name, and the Pods and the Workload that belong together.

Kueue ties them in three ways: a Workload is owned by its Pod, by every Pod of its group, or by the Job whose Pods they
are; and a Pod that Kueue placed names its Workload in an annotation.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from gpustack_ctl.accel.labels import KUEUE_WORKLOAD
from gpustack_ctl.explain.answers import named
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, Objs, annotations_of, name_of, namespace_of, uid_of


class NoSuchObjectError(Exception):
    """Nothing has that name; the text says what comes near, and where else to look."""


def find(informer: Informer, name: str, namespace: str) -> Obj:
    """The object of that name; raises NoSuchObjectError."""
    found = informer.get(f"{namespace}/{name}")
    if found is not None:
        return found
    kind, everything = informer.resource.kind, informer.list()
    elsewhere = sorted(namespace_of(obj) for obj in everything if name_of(obj) == name)
    near = get_close_matches(name, [name_of(obj) for obj in everything if namespace_of(obj) == namespace], cutoff=0.5)
    hints = [f"there is no {kind} {name} in namespace {namespace}"]
    if elsewhere:
        hints.append(f"there is one in {named(elsewhere)}")
    if near:
        hints.append(f"near names: {named(near)}")
    if kind == "Pod":
        hints.append("a Pod that gate 1 refused is never stored; gpustack-ctl lint FILE says why it would be")
    raise NoSuchObjectError("; ".join(hints))


def workload_of(pod: Obj, workloads: Iterable[Obj]) -> Obj | None:
    """The Workload that Kueue made for the Pod, alone or with others."""
    return next((workload for workload in workloads if _belongs(pod, workload)), None)


def pods_of(workload: Obj, pods: Iterable[Obj]) -> Objs:
    """The Pods of a Workload, by name."""
    return sorted((pod for pod in pods if _belongs(pod, workload)), key=name_of)


def _belongs(pod: Obj, workload: Obj) -> bool:
    if namespace_of(pod) != namespace_of(workload):
        return False
    if annotations_of(pod).get(KUEUE_WORKLOAD) == name_of(workload):
        return True
    owners = {uid_of(pod), *_owners(pod)}
    return not owners.isdisjoint(_owners(workload))


def _owners(obj: Obj) -> list[str]:
    return [owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ()]
