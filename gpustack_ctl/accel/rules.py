"""The rules a request must keep, each refusal saying what to write instead.

A Pod uses one family of one manufacturer in one group of its containers, because a card is given for a Pod's whole
life: a second family, or a claim that an init container is done with, would hold hardware that nobody uses. A slice or
a partition is one per Pod, because its limits are set per container and Kueue's units are summed per Pod.

All faults of a Pod are reported together; the reading has already found those of single values and budgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpustack_ctl.accel.claims import DERIVED, Claim, ContainerClaims, claims_of
from gpustack_ctl.accel.families import TOKENS, Family, KeyKind, Manufacturer, Manufacturers
from gpustack_ctl.accel.field_errors import FieldError, forbidden, invalid, required
from gpustack_ctl.accel.folds import card_count_errors, derived_keys
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.requests import Reading

_MOST_ERRORS = 50
_SLICING = {Family.SLICED, Family.PARTITIONED}


def validate(
    pod_spec: Mapping[str, Any], *, table: Manufacturers, pool: Pool | None, queue: str, at: str = "spec"
) -> list[FieldError]:
    """Every fault of a folded Pod spec, including what `fold` could not compute; empty when it may pass."""
    reading = Reading(claims_of(pod_spec, table=table, at=at), pool=pool, queue=queue)
    containers = reading.claims.containers
    if not containers:
        return _readable(reading.errors, at)
    errors = [
        *reading.errors,
        *(error for container in containers for error in _container(container)),
        *_sidecars(containers),
        *_one_family(containers, at),
        *_one_group(containers, at),
        *_one_manufacturer(containers, at),
        *_one_slicing_container(containers, at),
        *_one_profile(containers, at),
        *_offered(containers, pool),
        *card_count_errors(reading, at=at),
    ]
    return _readable(errors or list(_derived(reading, table)), at)


def _readable(errors: list[FieldError], at: str) -> list[FieldError]:
    """A Pod may have a thousand containers; a person mends some faults at a time."""
    more = len(errors) - _MOST_ERRORS
    return errors if more <= 0 else [*errors[:_MOST_ERRORS], forbidden(at, f"{more} more faults; mend these first")]


def _container(container: ContainerClaims) -> Iterator[FieldError]:
    for claim in container.claims:
        manufacturer, kind, family = claim.resource.manufacturer, claim.resource.kind, claim.resource.family
        if kind in (KeyKind.SLICED, KeyKind.PARTITIONED):
            yield from _token(claim)
        elif kind is KeyKind.PROFILE and claim.value not in (None, 1):
            yield invalid(claim.path, claim.text, "must be 1: a container gets one partition; write 1")
        if family in _SLICING and kind is not TOKENS[family]:
            yield from _beside_token(container, claim, manufacturer.key_for(TOKENS[family]))


def _token(claim: Claim) -> Iterator[FieldError]:
    manufacturer, family = claim.resource.manufacturer, claim.resource.family
    if family is Family.SLICED and not manufacturer.slices:
        yield forbidden(claim.path, f"{manufacturer.key} accelerators are not sliced; ask for {manufacturer.base}: 1")
    elif family is Family.PARTITIONED and not manufacturer.partition_kind:
        yield forbidden(
            claim.path, f"{manufacturer.key} accelerators have no partitions; ask for {manufacturer.base}: 1"
        )
    elif claim.value not in (None, 1):
        yield invalid(claim.path, claim.text, _one_token(manufacturer, family))


def _one_token(manufacturer: Manufacturer, family: Family | None) -> str:
    whole = f"ask for whole accelerators with {manufacturer.base}"
    if family is Family.PARTITIONED:
        return f"must be 1: a container gets one partition; write 1 and choose a larger profile, or {whole}"
    memory = manufacturer.key_for(KeyKind.MEMORY_PERCENTAGE)
    return f"must be 1: a container gets one slice; write 1 and size the slice with {memory}, or {whole}"


def _beside_token(container: ContainerClaims, claim: Claim, token: str) -> Iterator[FieldError]:
    if any(other.key == token for other in container.claims):
        return
    if claim.resource.kind in DERIVED:
        yield forbidden(claim.path, f"is computed from a request for {token}; leave it out")
    else:
        yield invalid(claim.path, claim.text, f"sizes a request for {token}, which is missing; add {token}: 1")


def _derived(reading: Reading, table: Manufacturers) -> Iterator[FieldError]:
    """What stands in the Pod must be what the fold says: Kueue charges by it, and others may have written since."""
    for container, demand in reading.demands:
        written = {claim.key: claim for claim in container.claims if claim.resource.kind in DERIVED}
        for key, value in derived_keys(container, demand, table).items():
            if key not in written:
                yield required(container.field(key), f"the request folds to {value}; the Pod webhook writes it")
            elif written[key].value != int(value):
                yield invalid(written[key].path, written[key].text, f"the request folds to {value}; leave the key out")


def _sidecars(containers: Iterable[ContainerClaims]) -> Iterator[FieldError]:
    for container in containers:
        if container.group == "sidecar":
            # The fold has added keys that its author never wrote; a token is always his own.
            tokens = (claim for claim in container.claims if claim.resource.kind in TOKENS.values())
            yield forbidden(
                next(tokens, container.claims[0]).path,
                "a native sidecar gets no accelerator; ask in spec.containers, or drop restartPolicy: Always",
            )


def _one_family(containers: Iterable[ContainerClaims], at: str) -> Iterator[FieldError]:
    families = {claim.resource.family for container in containers for claim in container.claims}
    found = ", ".join(family for family in Family if family in families)
    if len(families) > 1:
        yield invalid(at, found, "a Pod asks for one family of accelerators; keep one of these, or make two Pods")


def _one_group(containers: Iterable[ContainerClaims], at: str) -> Iterator[FieldError]:
    init = [container.name for container in containers if container.group == "init"]
    running = [container.name for container in containers if container.group == "running"]
    if init and running:
        yield forbidden(
            f"{at}.initContainers",
            f"{_named(init)} must give up the claim: accelerators are asked for by {_named(running)} too, and an init"
            " container would hold its own until the Pod is gone; ask in one of the two groups only",
        )


def _one_manufacturer(containers: Iterable[ContainerClaims], at: str) -> Iterator[FieldError]:
    keys = {claim.resource.manufacturer.key for container in containers for claim in container.claims}
    if len(keys) > 1:
        yield invalid(at, ", ".join(sorted(keys)), "a Pod asks one manufacturer's accelerators; keep one of these")


def _one_slicing_container(containers: Iterable[ContainerClaims], at: str) -> Iterator[FieldError]:
    slicing = [
        container.name
        for container in containers
        if any(claim.resource.kind in (KeyKind.SLICED, KeyKind.PARTITIONED) for claim in container.claims)
    ]
    if len(slicing) > 1:
        yield invalid(
            at,
            len(slicing),
            f"one container of a Pod may ask for a slice or a partition, and {_named(slicing)} do;"
            " keep one, or make a Pod of each",
        )


def _one_profile(containers: Iterable[ContainerClaims], at: str) -> Iterator[FieldError]:
    by_container = [
        {claim.resource.profile or "" for claim in container.claims if claim.resource.kind is KeyKind.PROFILE}
        for container in containers
    ]
    profiles = set().union(*by_container)
    if len(profiles) > 1 and all(
        len(found) <= 1 for found in by_container
    ):  # within one container it is reported there
        yield invalid(at, ", ".join(sorted(profiles)), "a Pod gets one partition profile; keep one of these")


def _offered(containers: Iterable[ContainerClaims], pool: Pool | None) -> Iterator[FieldError]:
    """Kueue ignores what a queue does not declare: it would admit another vendor's card unaccounted and unchecked."""
    if pool is None:
        return
    for container in containers:
        for claim in container.claims:
            if claim.resource.kind is not TOKENS.get(claim.resource.family or Family.EXCLUSIVE):
                continue
            maker = claim.resource.manufacturer.key
            if not pool.acceleratable:
                yield forbidden(claim.path, f"pool {pool.name} has no accelerators; use the queue of a pool that has")
            elif pool.manufacturer not in (None, maker):
                other = f"pool {pool.name} has accelerators of {pool.manufacturer}, none of {maker}"
                yield forbidden(claim.path, f"{other}; use the queue of a pool that has")


def _named(names: list[str]) -> str:
    """The containers, for a message that stays readable however many there are."""
    shown = ", ".join(f'"{name}"' for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
