"""The fold: what the Pod webhook writes into a Pod before Kueue looks at it.

Kueue multiplies and adds; it cannot divide a memory demand by a card's VRAM. So the webhook does, once, and leaves the
result as `.units` keys. It also pins a request for several shares to nodes that have that many cards, because a node's
ten tokens per card would let two cards pass for ten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel import labels
from gpustack_ctl.accel.claims import ContainerClaims, claims_of
from gpustack_ctl.accel.families import Family, KeyKind, Manufacturers
from gpustack_ctl.accel.field_errors import FieldError, required
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.requests import ContainerDemand, Reading
from gpustack_ctl.accel.units import stands_for


@dataclass(frozen=True, slots=True)
class Fold:
    """The outcome: `spec` is None when nothing had to change; `errors` are what could not be computed *yet*.

    A request that is simply wrong is left as it is, for the rules to refuse with all its faults together.
    """

    spec: dict[str, Any] | None = None
    errors: tuple[FieldError, ...] = ()


def fold(pod_spec: Mapping[str, Any], *, table: Manufacturers, pool: Pool | None, queue: str, at: str = "spec") -> Fold:
    """The Pod spec with derived keys and the card-count pin written in. Leaves its argument alone; idempotent.

    `queue` is the Pod's queue-name, for the message when the pool behind it is not known; `at` is where the spec stands
    in its object (`spec.template.spec` for a Job).
    """
    reading = Reading(claims_of(pod_spec, table=table, at=at), pool=pool, queue=queue)
    pin_errors = card_count_errors(reading, at=at)
    errors = tuple(error for error in (*reading.errors, *pin_errors) if error.retryable)
    folded = dict(pod_spec)
    for container, demand in reading.demands:
        if derived := derived_keys(container, demand, table):
            _write(folded, container, derived)
    if cards := _cards_to_pin(reading):
        _pin(folded, pool, cards)
    return Fold(None if folded == pod_spec else folded, errors)


def derived_keys(container: ContainerClaims, demand: ContainerDemand, table: Manufacturers) -> dict[str, str]:
    """The keys that follow from one container's demand; the client's own `.units` are always overruled."""
    row = table.by_key[demand.manufacturer]
    if demand.family is Family.PARTITIONED:
        return {row.key_for(KeyKind.PARTITIONED_UNITS): str(demand.units)}
    if demand.family is not Family.SLICED:
        return {}
    derived = {row.key_for(KeyKind.SLICED_UNITS): str(demand.units)}
    if container.of(row, KeyKind.CORES_PERCENTAGE) is None:
        derived[row.key_for(KeyKind.CORES_PERCENTAGE)] = str(demand.cores_percentage)
    return derived


def card_count_errors(reading: Reading, *, at: str) -> list[FieldError]:
    """Several shares need nodes with several cards of the pool's model; which model that is must be known."""
    if not _cards_to_pin(reading) or (reading.pool and reading.pool.akey):
        return []
    reason = f'no InstanceType behind queue "{reading.queue}" names the model of accelerator that several shares need'
    advice = "try again in a moment, or ask for one share"
    return [required(f"{at}.affinity.nodeAffinity", f"{reason}; {advice}", retryable=True)]


def _cards_to_pin(reading: Reading) -> int:
    """The most distinct cards any one container shares; zero when one card is enough for each."""
    most = max((demand.cards for _, demand in reading.demands if demand.family is Family.SHARED), default=0)
    return most if most > 1 else 0


def _write(spec: dict[str, Any], container: ContainerClaims, derived: Mapping[str, str]) -> None:
    """Extended resources are not overcommitted, so what is derived goes into limits and requests alike."""
    containers = list(spec[container.section])
    old = containers[container.index]
    resources = dict(old["resources"])
    for side in ("limits", "requests"):
        present = _object(resources.get(side))
        wanted = {key: value for key, value in derived.items() if not stands_for(present.get(key), int(value))}
        resources[side] = {**present, **wanted}
    containers[container.index] = {**old, "resources": resources}
    spec[container.section] = containers


def _pin(spec: dict[str, Any], pool: Pool | None, cards: int) -> None:
    if pool is None or pool.akey is None:
        return
    wanted = {"key": labels.accelerator(pool.akey, "count"), "operator": "Gt", "values": [str(cards - 1)]}
    affinity = _object(spec.get("affinity"))
    node = _object(affinity.get("nodeAffinity"))
    rule = _object(node.get(_REQUIRED))
    # Terms are alternatives, so the pin must stand in each of them.
    terms = [_anded(_object(term), wanted) for term in _list(rule.get("nodeSelectorTerms"))]
    rule = {**rule, "nodeSelectorTerms": terms or [{"matchExpressions": [wanted]}]}
    spec["affinity"] = {**affinity, "nodeAffinity": {**node, _REQUIRED: rule}}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _anded(term: Mapping[str, Any], wanted: dict[str, Any]) -> Mapping[str, Any]:
    expressions = _list(term.get("matchExpressions"))
    # A term without any requirement matches no node. Given one, it would begin to.
    if wanted in expressions or not (expressions or term.get("matchFields")):
        return term
    return {**term, "matchExpressions": [*expressions, wanted]}


def _object(value: object) -> Mapping[str, Any]:
    """`value` where an object belongs; what is none there, the API server refuses by itself."""
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
