"""The command's work: read the files, learn the pools, judge."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gpustack_ctl.accel.families import Manufacturers, manufacturers
from gpustack_ctl.kube.resources import INSTANCE_TYPES
from gpustack_ctl.lint import manifests
from gpustack_ctl.lint.instance_types import InstanceTypes
from gpustack_ctl.lint.judge import Finding, findings
from gpustack_ctl.lint.manifests import Manifest, ManifestError


async def lint(
    files: Sequence[str], instance_types: Path | None, kubeconfig: str | None, context: str | None
) -> list[Finding]:
    """Judge `files` by the InstanceTypes of a file, else of a cluster when one is named, else by none.

    Raises ManifestError and KubeError.
    """
    table = manufacturers(os.environ)
    read = [manifest for file in files for manifest in _read(file)]
    pools = await _pools(instance_types, kubeconfig, context, table)
    return list(findings(read, pools=pools, table=table))


async def _pools(file: Path | None, kubeconfig: str | None, context: str | None, table: Manufacturers) -> InstanceTypes:
    if file is not None:
        return InstanceTypes.of(_read(str(file)), table=table)
    if kubeconfig is None and context is None:
        return InstanceTypes((), table=table)
    # Imported here: most runs need no cluster, and its client takes longer to load than a hundred Pods to judge.
    from gpustack_ctl.kube.client import Kube

    async with Kube.connect(kubeconfig=kubeconfig, context=context) as kube:
        return InstanceTypes(await kube.list(INSTANCE_TYPES), table=table)


def _read(file: str) -> list[Manifest]:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ManifestError(file, 1, f"cannot be read: {error.strerror}") from error
    return manifests.read(data, source=file)
