"""Kubeconfigs of a run: who somebody is lies in the certificate, what he may do in RBAC."""

from pathlib import Path

from gpustack_ctl.localcluster.api import write_kubeconfig
from gpustack_ctl.localcluster.run import Run

EVERYTHING = ("system:masters",)
"""Groups of somebody whom RBAC is not asked about."""


def issue_kubeconfig(
    run: Run, user: str, *, groups: tuple[str, ...] = (), name: str | None = None, path: Path | None = None
) -> Path:
    """Make a kubeconfig for a user; ``name`` names its files where the user's own has a colon or a slash in it."""
    name = name or user.replace(":", "-").replace("/", "-")
    path = path or run.directory / "users" / f"{name}.kubeconfig"
    pair = run.authority.issue(user, groups=groups, file_name=name)
    write_kubeconfig(
        path,
        server=run.server,
        authority=run.authority.certificate,
        certificate=pair.certificate,
        key=pair.key,
        user=user,
    )
    return path
