"""What a Pod asks of the accelerators: one reader for every gate.

The webhook, the AdmissionCheck and the device plugin must agree on what a Pod wants, so all of them read it here, and
percentage, MiB or profile are folded into units here and nowhere else. The `.units` keys that a Pod carries are never
read back: whoever can write a Pod can write those too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel.claims import Claim, ContainerClaims, Group, PodClaims, claims_of
from gpustack_ctl.accel.families import Family, KeyKind, Manufacturer, Manufacturers
from gpustack_ctl.accel.field_errors import FieldError, invalid, not_supported, required
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.units import SHARE_UNITS, M, mib_units, percentage_units


@dataclass(frozen=True, slots=True)
class ContainerDemand:
    """One container's claim, read and folded."""

    container: str
    group: Group
    family: Family
    manufacturer: str
    #: Distinct accelerators; for partitions, instances.
    cards: int
    #: Units taken from each of them.
    units: int
    #: Published spelling; partitions only.
    profile: str | None = None
    #: Slices only.
    cores_percentage: int | None = None
    #: What a slice may use on its card; None unless sliced, or while the card's VRAM is unknown.
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class PodDemand:
    """Every claim of a Pod, and the faults that kept a claim from being read."""

    containers: tuple[ContainerDemand, ...] = ()
    errors: tuple[FieldError, ...] = ()

    @property
    def none(self) -> bool:
        """The Pod asks for no accelerator at all."""
        return not self.containers and not self.errors

    @property
    def units(self) -> int:
        """What one such Pod takes of cards; Kueue charges as much, or less where init containers share a charge."""
        return sum(demand.cards * demand.units for demand in self.containers)

    @property
    def manufacturer(self) -> str | None:
        """The manufacturer all claims share; None when there is no claim or there are several."""
        keys = {demand.manufacturer for demand in self.containers}
        return keys.pop() if len(keys) == 1 else None


def read_pod(
    pod_spec: Mapping[str, Any], *, table: Manufacturers, pool: Pool | None, queue: str = "", at: str = "spec"
) -> PodDemand:
    """The demand of a Pod or a PodSet's template. Never raises: what cannot be read is in `.errors`.

    `pool` may be None: whole cards, shares and percentage slices need none. `queue` is named in the message when one is
    needed and there is none; `at` is where the spec stands in its object.
    """
    reading = Reading(claims_of(pod_spec, table=table, at=at), pool=pool, queue=queue)
    return PodDemand(tuple(demand for _, demand in reading.demands), tuple(reading.errors))


class Reading:
    """A Pod's claims with the demands they amount to; the fold and the rules work on it."""

    __slots__ = ("claims", "demands", "errors", "pool", "queue")

    def __init__(self, claims: PodClaims, *, pool: Pool | None, queue: str) -> None:
        self.claims = claims
        self.pool = pool
        self.queue = queue
        self.errors: list[FieldError] = list(claims.errors)
        self.demands: list[tuple[ContainerClaims, ContainerDemand]] = [
            (container, demand)
            for container in claims.containers
            for claim in container.claims
            if claim.value is not None and (demand := self._of(container, claim, claim.value)) is not None
        ]

    def _of(self, container: ContainerClaims, claim: Claim, cards: int) -> ContainerDemand | None:
        """The demand that a family's token opens; the other keys only shape one."""
        manufacturer = claim.resource.manufacturer
        match claim.resource.kind:
            case KeyKind.WHOLE:
                return ContainerDemand(container.name, container.group, Family.EXCLUSIVE, manufacturer.key, cards, M)
            case KeyKind.SHARED:
                family = Family.SHARED
                return ContainerDemand(container.name, container.group, family, manufacturer.key, cards, SHARE_UNITS)
            case KeyKind.SLICED:
                return self._slice(container, manufacturer, cards)
            case KeyKind.PARTITIONED:
                return self._partition(container, manufacturer, cards)
            case _:
                return None

    def _slice(self, container: ContainerClaims, manufacturer: Manufacturer, cards: int) -> ContainerDemand | None:
        cores = container.of(manufacturer, KeyKind.CORES_PERCENTAGE)
        cores_percentage = 100 if cores is None else self._percentage(cores)
        budget = self._budget(container, manufacturer)
        if budget is None or cores_percentage is None:
            return None
        units, memory_mib = budget
        return ContainerDemand(
            container.name,
            container.group,
            Family.SLICED,
            manufacturer.key,
            cards,
            units,
            cores_percentage=cores_percentage,
            memory_mib=memory_mib,
        )

    def _budget(self, container: ContainerClaims, manufacturer: Manufacturer) -> tuple[int, int | None] | None:
        """Units of a slice, and its MiB as far as the card's memory is known."""
        percentage = container.of(manufacturer, KeyKind.MEMORY_PERCENTAGE)
        mib = container.of(manufacturer, KeyKind.MEMORY_MIB)
        vram = self.pool.memory_mib if self.pool else None
        if percentage is not None and mib is not None:
            reason = f"a slice has one memory budget; write either {percentage.key} or {mib.key}"
            self.errors.append(invalid(mib.path, mib.text, reason))
            return None
        if percentage is not None:
            share = self._percentage(percentage)
            if share is None:
                return None
            return percentage_units(share), None if vram is None else vram * share // 100
        if mib is not None:
            return self._mib_budget(mib, vram)
        self.errors.append(self._budget_missing(container, manufacturer))
        return None

    def _percentage(self, claim: Claim) -> int | None:
        if claim.value is None or claim.value <= 100:
            return claim.value
        self.errors.append(
            invalid(claim.path, claim.text, "must be at most 100; write a whole percentage from 1 to 100")
        )
        return None

    def _mib_budget(self, claim: Claim, vram: int | None) -> tuple[int, int] | None:
        if claim.value is None:
            return None
        if vram is None:
            self.errors.append(self._unknown(claim, "the memory of its accelerators"))
            return None
        if claim.value <= vram:
            return mib_units(claim.value, vram_mib=vram), claim.value
        reason = f"an accelerator of this pool has {vram} MiB; write 1 to {vram}"
        self.errors.append(invalid(claim.path, claim.text, reason))
        return None

    @staticmethod
    def _budget_missing(container: ContainerClaims, manufacturer: Manufacturer) -> FieldError:
        percentage = manufacturer.key_for(KeyKind.MEMORY_PERCENTAGE)
        mib = manufacturer.key_for(KeyKind.MEMORY_MIB)
        return required(
            container.field(percentage), f"a slice needs a memory budget; write 1 to 100 here, or MiB in {mib}"
        )

    def _partition(self, container: ContainerClaims, manufacturer: Manufacturer, cards: int) -> ContainerDemand | None:
        profiles = list(container.all_of(manufacturer, KeyKind.PROFILE))
        if len(profiles) != 1:
            self.errors.append(self._one_profile(container, manufacturer, profiles))
            return None
        claim = profiles[0]
        if claim.value is None or (units := self._profile_units(claim)) is None:
            return None
        return ContainerDemand(
            container.name,
            container.group,
            Family.PARTITIONED,
            manufacturer.key,
            cards,
            units,
            profile=claim.resource.profile,
        )

    def _profile_units(self, claim: Claim) -> int | None:
        pool, profile = self.pool, claim.resource.profile or ""
        if pool is None or pool.memory_mib is None or pool.profiles is None:
            self.errors.append(self._unknown(claim, "the memory and the profiles of its accelerators"))
            return None
        if (mib := pool.profiles.get(profile)) is not None:
            return min(mib_units(mib, vram_mib=pool.memory_mib), M)
        reason = f"the pool offers {pool.offered}; ask for a profile that it offers"
        self.errors.append(not_supported(claim.path, profile, reason))
        return None

    def _one_profile(self, container: ContainerClaims, manufacturer: Manufacturer, profiles: list[Claim]) -> FieldError:
        if profiles:
            found = ", ".join(claim.resource.profile or "" for claim in profiles)
            return invalid(
                f"{container.path}.resources.limits", found, "a container gets one partition; keep one profile"
            )
        key = manufacturer.key_for(KeyKind.PROFILE, "<profile>")
        offered = f", one of {self.pool.offered}" if self.pool and self.pool.profiles else ""
        return required(container.field(key), f"a partition needs a profile; write 1 under its key{offered}")

    def _unknown(self, claim: Claim, what: str) -> FieldError:
        """Time mends this one: the pool's type is written, or filled, as soon as its first node is seen."""
        if self.pool is None:
            reason = f'no InstanceType fronts queue "{self.queue}" yet, so {what} cannot be read'
        else:
            reason = f'InstanceType "{self.pool.name}" behind queue "{self.queue}" does not say {what} yet'
        return invalid(claim.path, claim.text, f"{reason}; try again in a moment", retryable=True)
