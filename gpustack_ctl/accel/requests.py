"""What a Pod asks of the accelerators: one reader for every gate.

The webhook, the AdmissionCheck and the device plugin must agree on what a Pod wants, so all of them read it here, from
limits joined with requests of init and app containers, and fold percentage, MiB or profile into units themselves. The
`.units` keys that a Pod carries are never read back: whoever can write a Pod can write those too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpustack_ctl.accel.families import Family, Manufacturers
from gpustack_ctl.accel.field_errors import FieldError

Group = Literal["init", "running", "sidecar"]


@dataclass(frozen=True, slots=True)
class Pool:
    """What is known of the accelerators behind a queue: the divisor and catalog of every fold.

    Gates 1 and 3 take it from the InstanceType (`pool_of`); gate 5 from the card itself.
    """

    name: str
    akey: str | None = None
    manufacturer: str | None = None
    #: VRAM of one accelerator; None while nobody knows it yet.
    memory_mib: int | None = None
    #: MiB by published profile name; None while the catalog is not known yet.
    profiles: Mapping[str, int] | None = None
    #: False for a pool of CPUs, where no accelerator can be asked for.
    acceleratable: bool = True


@dataclass(frozen=True, slots=True)
class ContainerDemand:
    """One container's claim."""

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
    def family(self) -> Family | None:
        """The family all claims share; None when there is no claim or there are several families."""
        families = {demand.family for demand in self.containers}
        return families.pop() if len(families) == 1 else None

    @property
    def manufacturer(self) -> str | None:
        """The manufacturer all claims share; None when there is no claim or there are several."""
        keys = {demand.manufacturer for demand in self.containers}
        return keys.pop() if len(keys) == 1 else None


def read_pod(pod_spec: Mapping[str, Any], *, table: Manufacturers, pool: Pool | None, at: str = "spec") -> PodDemand:
    """The demand of a Pod or a PodSet's template. Never raises: what cannot be read is in `.errors`.

    `pool` may be None: whole cards, shares and percentage slices need none.
    """
    raise NotImplementedError


def pool_of(instance_type: Mapping[str, Any], *, table: Manufacturers) -> Pool:
    """The pool that an InstanceType object fronts: `spec.memory`, else `status.detail.memory`, and the catalog."""
    raise NotImplementedError
