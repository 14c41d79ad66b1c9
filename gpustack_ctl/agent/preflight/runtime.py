"""What turns an answer to the kubelet into devices in a container: the container runtime, told by class or by CDI."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import anyio
import yaml

from gpustack_ctl.accel.families import Manufacturer
from gpustack_ctl.agent.preflight.finding import Finding, State
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import KubeError, NotFound
from gpustack_ctl.kube.resources import RUNTIME_CLASSES

#: Where container runtimes look for CDI specifications unless told otherwise.
CDI_DIRECTORIES = (Path("/etc/cdi"), Path("/var/run/cdi"))

_ASK_SECONDS = 5.0


async def runtime_class(
    present: Sequence[Manufacturer], *, kubeconfig: str | None = None, context: str | None = None
) -> Finding:
    """Whether the cluster declares the manufacturers' runtimes; without one they must be the node's default."""
    check = "runtime class"
    wanted = [manufacturer.runtime_class for manufacturer in present if manufacturer.runtime_class]
    if not wanted:
        return Finding(check, State.NOT_DECLARED, "no card here has a runtime of its own")
    try:
        with anyio.fail_after(_ASK_SECONDS):
            async with Kube.connect(kubeconfig=kubeconfig, context=context) as kube:
                missing = [name for name in wanted if not await _exists(kube, name)]
    except (KubeError, TimeoutError) as error:
        return Finding(check, State.NOT_DECLARED, f"the cluster cannot be asked: {error or 'no answer in time'}")
    if missing:
        return Finding(
            check,
            State.NOT_DECLARED,
            f"the cluster has no RuntimeClass {', '.join(missing)}",
            "create it, or make it the default runtime of this node's containerd or CRI-O",
        )
    return Finding(check, State.OK, f"RuntimeClass {', '.join(wanted)}")


def cdi(
    present: Sequence[Manufacturer], *, wanted: Collection[str], directories: Sequence[Path] = CDI_DIRECTORIES
) -> Finding:
    """Whether the CDI devices that annotations will name are specified. `wanted` has the manufacturers that use CDI."""
    kinds = [manufacturer.base for manufacturer in present if manufacturer.key in wanted]
    if not kinds:
        return Finding("CDI", State.NOT_DECLARED, "no manufacturer here is injected by CDI annotations")
    specified = set(_kinds(directories))
    missing = [kind for kind in kinds if kind not in specified]
    if missing:
        places = " or ".join(map(str, directories))
        return Finding(
            "CDI",
            State.UNAVAILABLE,
            f"no specification of {', '.join(missing)} in {places}",
            "write one, for NVIDIA with: nvidia-ctk cdi generate --device-name-strategy=uuid "
            "--output=/etc/cdi/nvidia.yaml",
        )
    return Finding("CDI", State.OK, f"{', '.join(kinds)} specified")


async def _exists(kube: Kube, name: str) -> bool:
    try:
        await kube.get(RUNTIME_CLASSES, name)
    except NotFound:
        return False
    return True


def _kinds(directories: Sequence[Path]) -> Iterator[str]:
    """The kinds of device that readable specifications name; one that cannot be read specifies nothing."""
    for directory in directories:
        for path in sorted((*directory.glob("*.json"), *directory.glob("*.yaml"), *directory.glob("*.yml"))):
            try:
                document = yaml.safe_load(path.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, yaml.YAMLError):
                continue
            if isinstance(document, dict) and document.get("devices"):
                yield str(document.get("kind", ""))
