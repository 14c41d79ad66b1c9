"""NVIDIA: the visible-devices variable, and HAMi-core for slices.

A slice is held to its budget by HAMi-core's `libvgpu.so`, preloaded into every process of the container. The library is
an external component that an operator stages on the host; without it a slice would be a promise nobody keeps, so the
allocation is refused unless isolation has been turned off in so many words.

Unverified on hardware: the in-container paths follow HAMi-core's documentation.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpustack_ctl.accel.families import Family, Manufacturer
from gpustack_ctl.agent.inventory import DetectedModel
from gpustack_ctl.agent.responders.enforcer import Lack, tell_of_no_enforcement, unenforceable, unless_set
from gpustack_ctl.agent.responders.responder import Grant, HostMount, Response, ResponseRefused
from gpustack_ctl.agent.responders.visible_devices import show
from gpustack_ctl.agent.switches import Switches

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
        limited = replace(response, envs={**response.envs, **_budget(grant)})
        if not self._enforced:
            tell_of_no_enforcement(grant)
            return limited
        return replace(limited, mounts=self._enforcer(grant))

    def _enforcer(self, grant: Grant) -> tuple[HostMount, ...]:
        """The library, what makes every process load it, and a directory that the Pod's containers share."""
        if lack := lacks(grant.model, state_dir=self._state_dir):
            raise unenforceable(grant, lack)
        staged = _staged(grant.model, self._state_dir)
        work = self._work_directory(grant)
        return (
            HostMount(f"{_INSIDE}/{_LIBRARY}", str(staged / _LIBRARY)),
            HostMount(f"/etc/{_PRELOAD}", str(staged / _PRELOAD)),
            HostMount(f"{_INSIDE}/work", str(work), read_only=False),
        )

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
    return envs | unless_set(grant, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "LIBCUDA_LOG_LEVEL": "0"})


def lacks(model: DetectedModel, *, state_dir: Path) -> Lack | None:
    """What this host is without to enforce a slice of the model."""
    if not _cuda_major(model).isdecimal():
        return Lack(
            f"the CUDA version of {model.product} is not known, so no library can be chosen for it",
            "let the detector tell its runtimeVersion",
        )
    staged = _staged(model, state_dir)
    missing = [name for name in (_LIBRARY, _PRELOAD) if not (staged / name).is_file()]
    if not missing:
        return None
    return Lack(
        f"{' and '.join(missing)} missing in {staged}",
        f"stage HAMi-core there (its {_LIBRARY}, and an {_PRELOAD} that reads {_INSIDE}/{_LIBRARY})",
    )


def _staged(model: DetectedModel, state_dir: Path) -> Path:
    return state_dir / "lib" / "nvidia" / f"cuda-{_cuda_major(model)}"


def _cuda_major(model: DetectedModel) -> str:
    return model.runtime_version.partition(".")[0]
