"""The agent's switches: read from the environment once, at the start, so that one process never behaves two ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpustack_ctl.accel.switches import is_on, release_terminated


@dataclass(frozen=True, slots=True)
class Switches:
    """What the environment turns on or off."""

    #: Refuse a slice that has no free slot or not its units left.
    sliced_allocate_gate: bool = True
    #: Ask the kubelet whose turn it is, instead of guessing from the Pods.
    identify_by_kubelet: bool = True
    #: A finished Pod holds its cards no longer, though its object is still there.
    release_terminated_pods: bool = True
    #: Cards of one product that differ in memory are models of their own.
    group_id_with_memory: bool = False
    #: Manufacturers whose slices run without enforcement.
    unenforced: frozenset[str] = field(default_factory=frozenset)
    #: Manufacturers whose whole cards and shares are injected by CDI annotation.
    cdi_annotations: frozenset[str] = field(default_factory=frozenset)


def switches(env: Mapping[str, str], *, manufacturers: Mapping[str, object]) -> Switches:
    """The switches that `env` sets; `manufacturers` has the keys of those known."""
    return Switches(
        sliced_allocate_gate=is_on(env, "GPUSTACK_DEVICE_PLUGIN_SLICED_ALLOCATE_GATE", default=True),
        identify_by_kubelet=is_on(env, "GPUSTACK_DEVICE_PLUGIN_IDENTIFY_BY_KUBELET", default=True),
        release_terminated_pods=release_terminated(env),
        group_id_with_memory=is_on(env, "GPUSTACK_DEVICES_GROUP_ID_WITH_MEMORY", default=False),
        unenforced=frozenset(key for key in manufacturers if not is_on(env, isolation_switch(key), default=True)),
        cdi_annotations=frozenset(
            key for key in manufacturers if env.get(_injection_switch(key), "").strip() == "cdi-annotations"
        ),
    )


def isolation_switch(manufacturer: str) -> str:
    """The variable that, set to `off`, lets slices run without enforcement."""
    return f"GPUSTACK_{manufacturer.upper()}_SLICE_ISOLATION"


def _injection_switch(manufacturer: str) -> str:
    return f"GPUSTACK_{manufacturer.upper()}_DEVICE_INJECTION_STRATEGY"
