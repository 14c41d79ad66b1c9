"""Claims: the accelerator keys in a Pod spec, found, joined and read by value, before anybody judges them.

Limits are joined with requests, limits first, over init and app containers. Faults of a value alone (not a number, a
fraction, nothing or less) are found here, so that whoever folds or places later deals in whole numbers only. A spec of
the wrong shape is a fault too, never an exception: this reader stands at three gates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpustack_ctl.accel.families import KeyKind, Manufacturer, Manufacturers, ResourceKey
from gpustack_ctl.accel.field_errors import FieldError, clipped, invalid
from gpustack_ctl.accel.units import QuantityError, quantity, stands_for

Group = Literal["init", "running", "sidecar"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One accelerator key of one container; `value` is None when it could not be read."""

    resource: ResourceKey
    key: str
    path: str
    text: str
    value: int | None


@dataclass(frozen=True, slots=True)
class ContainerClaims:
    """The accelerator keys of one container; `section` and `index` say where it stands in the Pod spec."""

    name: str
    group: Group
    section: Literal["initContainers", "containers"]
    index: int
    path: str
    claims: tuple[Claim, ...]

    def of(self, manufacturer: Manufacturer, kind: KeyKind) -> Claim | None:
        """The claim of that manufacturer and kind; for profiles, the first."""
        return next(self.all_of(manufacturer, kind), None)

    def all_of(self, manufacturer: Manufacturer, kind: KeyKind) -> Iterator[Claim]:
        """Every claim of that manufacturer and kind."""
        return (
            claim
            for claim in self.claims
            if claim.resource.kind is kind and claim.resource.manufacturer.key == manufacturer.key
        )

    def field(self, key: str) -> str:
        """Where `key` stands, or would stand, in this container."""
        return f"{self.path}.resources.limits[{key}]"


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The containers that claim an accelerator, and the faults of single values."""

    containers: tuple[ContainerClaims, ...]
    errors: tuple[FieldError, ...]


def claims_of(pod_spec: Mapping[str, Any], *, table: Manufacturers, at: str) -> PodClaims:
    """The accelerator claims of a Pod spec that stands at the field path `at`."""
    reader = _Reader(table)
    containers = [claims for claims in reader.containers(pod_spec, at) if claims.claims]
    return PodClaims(tuple(containers), tuple(reader.errors))


#: Written by the webhook, read by Kueue and the scheduler, believed by no gate.
DERIVED = frozenset({KeyKind.SLICED_UNITS, KeyKind.PARTITIONED_UNITS})


class _Reader:
    """Walks one Pod spec and collects faults on the way."""

    __slots__ = ("errors", "table")

    def __init__(self, table: Manufacturers) -> None:
        self.table = table
        self.errors: list[FieldError] = []

    def containers(self, pod_spec: Mapping[str, Any], at: str) -> Iterator[ContainerClaims]:
        sections: tuple[Literal["initContainers", "containers"], ...] = ("initContainers", "containers")
        for section in sections:
            for index, container in enumerate(self._list(pod_spec.get(section), f"{at}.{section}")):
                path = f"{at}.{section}[{index}]"
                container = self._mapping(container, path)
                group: Group = "running"
                if section == "initContainers":
                    group = "sidecar" if container.get("restartPolicy") == "Always" else "init"
                name = str(container.get("name", ""))
                yield ContainerClaims(name, group, section, index, path, self._claims(container, path))

    def _claims(self, container: Mapping[str, Any], path: str) -> tuple[Claim, ...]:
        resources = container.get("resources")
        if not resources:
            return ()
        resources = self._mapping(resources, f"{path}.resources")
        limits = self._mapping(resources.get("limits"), f"{path}.resources.limits")
        requests = self._mapping(resources.get("requests"), f"{path}.resources.requests")
        claims = []
        for key, value in {**requests, **limits}.items():
            resource = self.table.read(key) if isinstance(key, str) else None
            if resource is None or resource.family is None:
                continue
            side = "limits" if key in limits else "requests"
            claim = self._claim(resource, key, f"{path}.resources.{side}[{key}]", value)
            claims.append(claim)
            if side == "limits" and key in requests and resource.kind not in DERIVED:
                self._same(f"{path}.resources.requests[{key}]", requests[key], claim)
        return tuple(claims)

    def _claim(self, resource: ResourceKey, key: str, path: str, value: object) -> Claim:
        text = str(value)
        try:
            number = quantity(value)
            fault = "" if number > 0 else "must be greater than zero"
        except QuantityError as error:
            number, fault = 0, str(error)
        if not fault:
            return Claim(resource, key, path, text, number)
        if resource.kind not in DERIVED:  # what the webhook overwrites, it need not complain of
            self.errors.append(invalid(path, text, f"{fault}; {_INSTEAD[resource.kind]}, or leave the key out"))
        return Claim(resource, key, path, text, None)

    def _same(self, path: str, request: object, limit: Claim) -> None:
        """Kubernetes does not overcommit extended resources, and says so for Pods; templates are read here too."""
        if str(request) != limit.text and (limit.value is None or not stands_for(request, limit.value)):
            reason = f"must equal the limit; write {clipped(limit.text)}, or leave the request out"
            self.errors.append(invalid(path, request, reason))

    def _mapping(self, value: object, path: str) -> Mapping[str, Any]:
        if value is None or isinstance(value, Mapping):
            return value or {}
        self.errors.append(invalid(path, _kind_of(value), "must be an object"))
        return {}

    def _list(self, value: object, path: str) -> list[Any]:
        if value is None or isinstance(value, list):
            return value or []
        self.errors.append(invalid(path, _kind_of(value), "must be a list of containers"))
        return []


def _kind_of(value: object) -> str:
    return type(value).__name__


_INSTEAD = {
    KeyKind.WHOLE: "write the number of whole accelerators, 1 or more",
    KeyKind.SHARED: "write the number of distinct accelerators to share, 1 or more",
    KeyKind.SLICED: "write 1",
    KeyKind.CORES_PERCENTAGE: "write a whole percentage from 1 to 100",
    KeyKind.MEMORY_PERCENTAGE: "write a whole percentage from 1 to 100",
    KeyKind.MEMORY_MIB: "write a whole number of MiB",
    KeyKind.PARTITIONED: "write 1",
    KeyKind.PROFILE: "write 1",
}
