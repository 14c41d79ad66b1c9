"""NVIDIA: the visible-devices variable, and HAMi-core for slices.

A slice is held to its budget by HAMi-core's `libvgpu.so`, preloaded into every process of the container. The library is
an external component that an operator stages on the host; without it a slice would be a promise nobody keeps, so the
allocation is refused unless isolation has been turned off in so many words.

Unverified on hardware: the in-container paths follow HAMi-core's documentation.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import structlog

from gpustack_ctl.accel.families import Family, Manufacturer
from gpustack_ctl.agent.inventory import DetectedModel
from gpustack_ctl.agent.responders.responder import Grant, HostMount, Response, ResponseRefused
from gpustack_ctl.agent.responders.visible_devices import show
from gpustack_ctl.agent.switches import Switches, isolation_switch

log = structlog.get_logger()

_LIBRARY = "libvgpu.so"
_PRELOAD = "ld.so.preload"
_INSIDE = "/usr/local/vgpu"


class NvidiaResponder:
    """`state_dir` is where the enforcement library is staged and where Pods get their work directories."""

    def __init__(self, manufacturer: Manufacturer, *, switches: Switches, state_dir: Path) -> None:
        self._manufacturer = manufacturer
        self._cdi = manufacturer.key in switches.cdi_annotations
        self._enforced = manufacturer.key not in switches.unenforced
        self._state_dir = state_dir

    async def respond(self, grant: Grant) -> Response:
        response = show(grant, self._manufacturer, cdi=self._cdi)
        if grant.family is not Family.SLICED:
            return response
        mounts = self._enforcer(grant) if self._enforced else self._unenforced(grant)
        return replace(response, envs={**response.envs, **_budget(grant)}, mounts=mounts)

    def _enforcer(self, grant: Grant) -> tuple[HostMount, ...]:
        """The library, what makes every process load it, and a directory that the Pod's containers share."""
        missing = unenforceable(grant.model, state_dir=self._state_dir)
        if missing:
            raise ResponseRefused(f"the slice on {grant.cards[0].id} cannot be enforced: {missing}")
        staged = _staged(grant.model, self._state_dir)
        work = self._work_directory(grant)
        return (
            HostMount(f"{_INSIDE}/{_LIBRARY}", str(staged / _LIBRARY)),
            HostMount(f"/etc/{_PRELOAD}", str(staged / _PRELOAD)),
            HostMount(f"{_INSIDE}/work", str(work), read_only=False),
        )

    def _unenforced(self, grant: Grant) -> tuple[HostMount, ...]:
        log.warning(
            "slice runs without enforcement",
            pod=str(grant.pod),
            uid=grant.pod.uid,
            container=grant.container["name"],
            card=grant.cards[0].id,
            switch=isolation_switch(self._manufacturer.key),
        )
        return ()

    def _work_directory(self, grant: Grant) -> Path:
        work = self._state_dir / "pods" / grant.pod.uid
        try:
            work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResponseRefused(f"no work directory for the slice, {work}: {error.strerror}") from error
        return work


def _budget(grant: Grant) -> dict[str, str]:
    """The slice's limits as HAMi-core reads them. Limits always win; the rest gives way to the container's own."""
    demand = grant.demand
    if demand is None or demand.memory_mib is None:
        raise ResponseRefused(f"the memory budget of container {grant.container['name']} is not known")
    envs = {"CUDA_DEVICE_SM_LIMIT": str(demand.cores_percentage)}
    for position in range(len(grant.cards)):
        envs[f"CUDA_DEVICE_MEMORY_LIMIT_{position}"] = f"{demand.memory_mib}m"
    # The library counts cards in the driver's order, and is read by CUDA's ordinal: this makes the two the same.
    gentle = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "LIBCUDA_LOG_LEVEL": "0"}
    return envs | {name: value for name, value in gentle.items() if not grant.sets(name)}


def unenforceable(model: DetectedModel, *, state_dir: Path) -> str:
    """What the host lacks to enforce a slice of the model, a semicolon, and how to get past it; empty when nothing."""
    way_out = f"or run slices without enforcement with {isolation_switch(model.manufacturer)}=off"
    if not _cuda_major(model).isdecimal():
        return (
            f"the CUDA version of {model.product} is not known, so no library can be chosen for it; "
            f"let the detector tell its runtimeVersion, {way_out}"
        )
    staged = _staged(model, state_dir)
    missing = [name for name in (_LIBRARY, _PRELOAD) if not (staged / name).is_file()]
    if not missing:
        return ""
    return (
        f"{' and '.join(missing)} missing in {staged}; stage HAMi-core there "
        f"(its {_LIBRARY}, and an {_PRELOAD} that reads {_INSIDE}/{_LIBRARY}), {way_out}"
    )


def _staged(model: DetectedModel, state_dir: Path) -> Path:
    return state_dir / "lib" / "nvidia" / f"cuda-{_cuda_major(model)}"


def _cuda_major(model: DetectedModel) -> str:
    return model.runtime_version.partition(".")[0]
