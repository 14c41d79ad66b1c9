"""Playing on somebody's cluster: look first, say plainly what is missing, and install nothing unasked."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import KubeError, NotFound
from gpustack_ctl.kube.objects import Obj, is_true, name_of
from gpustack_ctl.kube.resources import CONFIG_MAPS, CRDS, NODES, WORKLOADS
from gpustack_ctl.localcluster.versions import kueue_version

INSTALL = (
    *("helm", "upgrade", "--install", "kueue", "oci://registry.k8s.io/kueue/charts/kueue"),
    *("--version", kueue_version(), "--namespace", "kueue-system", "--create-namespace", "--wait"),
    *("--values", "deploy/kueue/values.yaml"),
)


class UnfitClusterError(KubeError):
    """The cluster lacks something the story stands on; the message says what, and how to get it there."""


async def check_kueue(kube: Kube, *, install: bool) -> None:
    """Kueue is there and configured as the gates need it; with `install`, put it there when it is not."""
    try:
        definition = await kube.get(CRDS, str(WORKLOADS))
    except NotFound:
        if not install:
            raise UnfitClusterError(
                f"Kueue is not installed in {kube.server}. Install it with\n  {' '.join(INSTALL)}\n"
                "or let this command do it: --install-kueue"
            ) from None
        _install()
        return
    served = [version["name"] for version in definition["spec"]["versions"] if version.get("served")]
    if WORKLOADS.version not in served:
        raise UnfitClusterError(
            f"Kueue in {kube.server} serves {', '.join(served)} and not {WORKLOADS.version}: "
            f"upgrade it to {kueue_version()} or later\n  {' '.join(INSTALL)}"
        )
    await _check_configuration(kube)


async def choose_node(kube: Kube, name: str | None) -> Obj:
    """The node whose cards are simulated: the one named, or the only Ready one."""
    nodes = await kube.list(NODES)
    if name is not None:
        found = next((node for node in nodes if name_of(node) == name), None)
        if found is None:
            raise UnfitClusterError(f"--node-name {name}: no such Node; there are {', '.join(map(name_of, nodes))}")
        return found
    ready = [node for node in nodes if is_true(node, "Ready") and not node["spec"].get("unschedulable")]
    if len(ready) != 1:
        raise UnfitClusterError(
            f"{len(ready)} Nodes are Ready ({', '.join(map(name_of, ready)) or 'none'}): "
            "name the one this machine is with --node-name"
        )
    return ready[0]


def check_kubelet(directory: Path, node: str) -> None:
    """The kubelet's sockets can be reached from here: without them there is no fifth gate."""
    missing = [
        path
        for path in (directory / "device-plugins" / "kubelet.sock", directory / "pod-resources" / "kubelet.sock")
        if not path.is_socket()
    ]
    if missing:
        raise UnfitClusterError(
            f"gate 5 needs the kubelet of {node}, and {' and '.join(map(str, missing))} "
            f"{'is' if len(missing) == 1 else 'are'} not here. Run this on that node, or mount its "
            "/var/lib/kubelet/{device-plugins,pod-resources} here (deploy/kind.yaml does it for kind) and name the "
            "directory with --kubelet-dir"
        )


def _install() -> None:
    if shutil.which("helm") is None:
        raise UnfitClusterError(
            f"--install-kueue needs helm on PATH; without it, run where helm is:\n  {' '.join(INSTALL)}"
        )
    subprocess.run(INSTALL, check=True)


async def _check_configuration(kube: Kube) -> None:
    """Read Kueue's own configuration where its chart keeps it. A Kueue started otherwise is taken at its word."""
    try:
        found = await kube.get(CONFIG_MAPS, "kueue-manager-config", "kueue-system")
    except NotFound:
        return
    text = (found.get("data") or {}).get("controller_manager_config.yaml", "")
    lacking = _lacking(yaml.safe_load(text) or {})
    if lacking:
        raise UnfitClusterError(
            f"Kueue in {kube.server} is configured without {' and without '.join(lacking)}: gates 2 and 3 would not "
            f"see the Pods. Bring its configuration to deploy/kueue/values.yaml\n  {' '.join(INSTALL)}"
        )


def _lacking(configuration: Mapping[str, Any]) -> list[str]:
    lacking = []
    if "pod" not in ((configuration.get("integrations") or {}).get("frameworks") or ()):
        lacking.append("the pod integration (integrations.frameworks)")
    inputs = {t.get("input") for t in (configuration.get("resources") or {}).get("transformations") or ()}
    if "nvidia.com/gpu.sliced.units" not in inputs:
        lacking.append("the credits (resources.transformations)")
    return lacking
