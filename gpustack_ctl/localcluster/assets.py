"""Where the programs come from: a directory the user names, the cache, or a build into the cache."""

import os
from dataclasses import dataclass
from pathlib import Path

from gpustack_ctl.localcluster.build import ensure_built
from gpustack_ctl.localcluster.errors import LocalClusterError
from gpustack_ctl.localcluster.progress import Progress
from gpustack_ctl.localcluster.versions import PROGRAMS, cache_directory

VARIABLE = "GPUSTACK_KUBE_ASSETS"


@dataclass(frozen=True, slots=True)
class Assets:
    """A directory with every program, and under ``manifests/`` Kueue's CRDs and webhooks."""

    directory: Path

    def program(self, name: str) -> str:
        return str(self.directory / name)

    @property
    def manifests(self) -> Path:
        return self.directory / "manifests"

    def missing(self) -> list[str]:
        wanted = [*PROGRAMS, "manifests/webhooks.yaml", "manifests/crd"]
        return [name for name in wanted if not (self.directory / name).exists()]


async def find_assets(progress: Progress) -> Assets:
    """The first of: $GPUSTACK_KUBE_ASSETS, the cache, a build into the cache (minutes, once)."""
    if named := os.environ.get(VARIABLE):
        return _named(Path(named))
    cached = Assets(cache_directory())
    if cached.missing():
        await ensure_built(cached.directory, progress, complete=lambda: not cached.missing())
    return cached


def _named(directory: Path) -> Assets:
    assets = Assets(directory)
    if missing := assets.missing():
        raise LocalClusterError(
            f"{VARIABLE}={directory} lacks {', '.join(missing)}",
            f"Put them there, or unset {VARIABLE} to have everything built into {cache_directory()}.",
        )
    return assets
