"""Gate 1, the Pod webhook: it reads the request, folds it into units, and refuses what makes no sense.

A Pod that it refused was never stored, so there is nothing to explain; one that is stored was let in. What is asked
again here is what the webhook would say today, since a pool may have changed since, or the webhook may have been absent
when the Pod was made.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpustack_ctl.accel.claims import DERIVED
from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.judgement import judge
from gpustack_ctl.accel.labels import KUEUE_QUEUE_NAME
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.units import QuantityError, quantity
from gpustack_ctl.explain.answers import Answer
from gpustack_ctl.kube.objects import Obj, labels_of

NOT_QUEUED = f"not asked: the Pod has no label {KUEUE_QUEUE_NAME}"
QUEUE_IT = f"a label {KUEUE_QUEUE_NAME} with the entrance of a pool, on a new Pod"


def asked_at_creation(pod: Obj, table: Manufacturers, *, pool: Pool | None = None, queue: str = "") -> Answer:
    """Gate 1's answer to a stored Pod; with its pool, also whether the answer would be the same today.

    A Pod of a Job has no label of its own: the Job had it, and its template was judged. `queue` is what that said.
    """
    queue = queue or labels_of(pod).get(KUEUE_QUEUE_NAME, "")
    if not queue:
        return Answer(1, requested(pod["spec"], table), "unknown", NOT_QUEUED, QUEUE_IT)
    return asked_of_template(pod["spec"], table, pool=pool, queue=queue)


def asked_of_template(spec: Mapping[str, Any], table: Manufacturers, *, pool: Pool | None, queue: str) -> Answer:
    """Gate 1's answer to a Pod spec that was let in. The keys that the webhook derived are its answer."""
    saw, derived = requested(spec, table), _derived(spec, table)
    folded = "folded to " + ", ".join(f"{key}={value}" for key, value in derived.items()) if derived else ""
    if pool is None:
        return Answer(1, saw, "passed", folded)
    today = judge(spec, table=table, pool=pool, queue=queue)
    if today.errors:
        message = f"let in, and would be refused today: {'; '.join(map(str, today.errors))}"
        return Answer(1, saw, "passed", message, "the fields that it names, on a new Pod")
    if missing := _derived(today.spec, table).keys() - derived.keys():
        message = f"not asked when the Pod was made: it has no {', '.join(sorted(missing))}"
        return Answer(1, saw, "unknown", message, "the webhook registered and serving, and the Pod made anew")
    return Answer(1, saw, "passed", folded)


def refused_at_creation(asked: Mapping[str, str], message: str) -> Answer:
    """Gate 1's answer to a Pod that was never stored: `message` is the API server's."""
    return Answer(1, _keys(asked), "refused", message)


def requested(spec: Mapping[str, Any], table: Manufacturers) -> str:
    """What a Pod spec asks of the accelerators, in the words of its author; by container where several ask."""
    asking = {
        container: {key: value for key, value in claims.items() if not _is_derived(key, table)}
        for container, claims in _claims(spec, table)
    }
    if len(asking) == 1:
        return _keys(*asking.values())
    return "; ".join(f"{container}: {_keys(claims)}" for container, claims in asking.items())


def units(amount: str) -> int | str:
    """A quantity as a number: the API server spells 800000 as 800k."""
    try:
        return quantity(amount)
    except QuantityError:
        return amount


def _derived(spec: Mapping[str, Any], table: Manufacturers) -> dict[str, int | str]:
    claimed = (claim for _, claims in _claims(spec, table) for claim in claims.items())
    return {key: units(value) for key, value in claimed if _is_derived(key, table)}


def _is_derived(key: str, table: Manufacturers) -> bool:
    read = table.read(key)
    return read is not None and read.kind in DERIVED


def _claims(spec: Mapping[str, Any], table: Manufacturers) -> Iterator[tuple[str, dict[str, str]]]:
    """The containers that ask for an accelerator, and their limits that do."""
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        limits = (container.get("resources") or {}).get("limits") or {}
        if claims := {key: value for key, value in limits.items() if table.read(key)}:
            yield container["name"], claims


def _keys(asked: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in asked.items())
