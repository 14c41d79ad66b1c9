"""The placement pin: where a Workload that the admission check has held may be placed, as node affinity.

A Workload that is held must not keep the quota that it cannot use, and must not come back to the node on which it was
just refused. So it is held by placement: the pin names the nodes that may take it, none at all while none fits, and
topology-aware scheduling looks at no other. The admission check writes the pin as an annotation of the Workload, and
the Workload webhook renders it into the PodSets, ANDed to whatever the user wrote there.

What is ours stands behind a mark in every required term: an expression that is true of every node. So our part can be
found again and replaced by another without a record of what it was, and a user's own expression on the same key is
never mistaken for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson

from gpustack_ctl.accel.families import Family
from gpustack_ctl.accel.labels import HOSTNAME, PLACEMENT_PIN, SHARED_FIT_PREFIX, SLICED_FIT_PREFIX
from gpustack_ctl.accel.requests import PodDemand

PIN_NODES = 256
"""A pin names at most so many nodes: it stands in every required term of every PodSet of an object in etcd."""

Expression = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reach:
    """Which nodes a Workload may use: `nodes`, or with `excluded` set every node but those."""

    nodes: tuple[str, ...] = ()
    excluded: tuple[str, ...] | None = None

    @property
    def parked(self) -> bool:
        """Whether no node may take it."""
        return self.excluded is None and not self.nodes

    def allows(self, node: str) -> bool:
        return node in self.nodes if self.excluded is None else node not in self.excluded


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin(Reach):
    """Which nodes a held Workload may use, and its story for whoever waits for it.

    `since` is when it was first held and `at` when it was last; both as Kubernetes writes moments. `rounds` counts how
    often it was held, `lost` how often Kueue had placed it again before the pin was in its PodSets. `toggled`: we have
    made it inactive, to have it active again with the pin in place. `reserved` are nodes kept for it because it has
    waited too long.
    """

    why: str = ""
    since: str = ""
    at: str = ""
    rounds: int = 0
    lost: int = 0
    toggled: bool = False
    reserved: tuple[str, ...] = ()


def format_pin(pin: Pin) -> str:
    """The annotation's text; what says nothing is left out, but for the nodes."""
    told = {name: value for name, value in asdict(pin).items() if value or (name == "excluded" and value is not None)}
    where = {} if pin.excluded is not None else {"nodes": pin.nodes}
    return orjson.dumps({"v": _VERSION, **where, **told}).decode()


def parse_pin(text: str | None) -> Pin | None:
    """The pin that the text is; None when it is none. Anybody may have written it, so it is believed in no part."""
    if text is None:
        return None
    try:
        told = orjson.loads(text)
        if not isinstance(told, dict) or told.pop("v", None) != _VERSION:
            return None
        parts: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in told.items()}
        pin = Pin(**parts)
        return pin if _sound(pin) else None
    except (TypeError, ValueError):
        return None


def park(pin: Pin | None, *, why: str, at: str, lost: bool = False) -> Pin:
    """The pin once the Workload was held again: no node, until one is found that fits."""
    pin = pin or Pin(since=at)
    return replace(
        pin,
        nodes=(),
        excluded=None,
        why=why[:_LONGEST_WHY],
        since=pin.since or at,
        at=at,
        rounds=min(pin.rounds + 1, _MOST),
        lost=min(pin.lost + lost, _MOST),
    )


def where(fits: Sequence[str], others: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """`nodes` and `excluded` of a pin onto the nodes that fit: the shorter list of the two, and never too long a one.

    To name fewer nodes than fit is safe, to exclude fewer than do not is not.
    """
    if fits and len(others) < len(fits) and len(others) <= PIN_NODES:
        return (), tuple(sorted(others))
    return tuple(sorted(fits)[:PIN_NODES]), None


def fit_expressions(pod: PodDemand, akey: str) -> list[Expression]:
    """What the nodes' per-card labels must say for one Pod: room for its largest slice, cards for its widest share."""
    units = max((claim.units for claim in pod.containers if claim.family is Family.SLICED), default=0)
    cards = max((claim.cards for claim in pod.containers if claim.family is Family.SHARED), default=0)
    found = []
    if units:
        found.append(_expression(SLICED_FIT_PREFIX + akey, "Gt", str(units - 1)))
    if cards > 1:
        found.append(_expression(SHARED_FIT_PREFIX + akey, "Gt", str(cards - 1)))
    return found


def render(template: Mapping[str, Any], pin: Pin | None, fit: Iterable[Expression] = ()) -> dict[str, Any]:
    """A PodSet's template with the pin and the fit expressions in every required term, in place of what we had there.

    Rendering twice is rendering once. A template that asks for nothing of ours comes back without any trace of us.
    """
    ours = [*_of_pin(pin), *fit]
    spec = dict(template.get("spec") or {})
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    required = dict(node_affinity.get(_REQUIRED) or {})
    terms = _with(ours, _users(required.get(_TERMS) or ()))
    _set(required, _TERMS, terms)
    _set(node_affinity, _REQUIRED, required)
    _set(affinity, "nodeAffinity", node_affinity)
    _set(spec, "affinity", affinity)
    return {**template, "spec": spec}


def carries(template: Mapping[str, Any], pin: Pin | None) -> bool:
    """Whether the template is pinned exactly so; its fit expressions may be any."""
    wanted = _of_pin(pin)
    affinity = ((template.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(_REQUIRED) or {}).get(_TERMS) or ()
    if not terms:
        return not wanted
    ours = [_split(term)[1] for term in terms if _selects(term)]  # one that selects nothing needs no pin
    return all([each for each in expressions if each["key"] == HOSTNAME] == wanted for expressions in ours)


_VERSION = 1
_LONGEST_WHY = 1024
_MOST = (1 << 31) - 1
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS = "nodeSelectorTerms"
_EXPRESSIONS = "matchExpressions"
#: True of every node, since it is a label of none: what follows it in a term is ours.
_MARK: Expression = {"key": PLACEMENT_PIN, "operator": "DoesNotExist"}


def _of_pin(pin: Pin | None) -> list[Expression]:
    if pin is None or (pin.excluded is not None and not pin.excluded):
        return []
    if pin.parked:
        # Every node has a hostname, so this matches none.
        return [{"key": HOSTNAME, "operator": "DoesNotExist"}]
    if pin.excluded is not None:
        return [_expression(HOSTNAME, "NotIn", *pin.excluded)]
    return [_expression(HOSTNAME, "In", *pin.nodes)]


def _users(terms: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The terms as the user wrote them; a term that was only ours is gone."""
    kept = []
    for term in terms:
        theirs, ours = _split(term)
        rest = {key: value for key, value in term.items() if key != _EXPRESSIONS}
        if theirs or (not ours and _EXPRESSIONS in term):
            rest[_EXPRESSIONS] = theirs
        if rest or not ours:
            kept.append(rest)
    return kept


def _with(ours: Sequence[Expression], terms: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every term narrowed by ours. An empty term matches no node, and would begin to match some if we added to it."""
    if not ours:
        return list(terms)
    if not terms:
        return [{_EXPRESSIONS: [_MARK, *ours]}]
    return [
        {**term, _EXPRESSIONS: [*(term.get(_EXPRESSIONS) or ()), _MARK, *ours]} if _selects(term) else term
        for term in terms
    ]


def _selects(term: Mapping[str, Any]) -> bool:
    return bool(term.get(_EXPRESSIONS) or term.get("matchFields"))


def _split(term: Mapping[str, Any]) -> tuple[list[Expression], list[Expression]]:
    """The user's expressions of a term, and ours, the mark among them."""
    expressions = list(term.get(_EXPRESSIONS) or ())
    at = next((at for at, each in enumerate(expressions) if each.get("key") == PLACEMENT_PIN), len(expressions))
    return expressions[:at], expressions[at:]


def _expression(key: str, operator: str, *values: str) -> Expression:
    return {"key": key, "operator": operator, "values": list(values)}


def _set(parent: dict[str, Any], key: str, value: Any) -> None:
    """An empty value is left out, as the API server leaves it out."""
    if value:
        parent[key] = value
    else:
        parent.pop(key, None)


def _sound(pin: Pin) -> bool:
    names = (*pin.nodes, *(pin.excluded or ()), *pin.reserved)
    counts = (pin.rounds, pin.lost)
    return (
        all(isinstance(name, str) and name for name in names)
        and len(names) <= 3 * PIN_NODES
        and all(type(count) is int and 0 <= count <= _MOST for count in counts)
        and all(isinstance(text, str) for text in (pin.why, pin.since, pin.at))
        and isinstance(pin.toggled, bool)
        and not isinstance(pin.nodes, str)
    )
