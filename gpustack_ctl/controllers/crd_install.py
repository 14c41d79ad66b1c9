"""Our CRDs, there before anything that needs them.

A missing one is made. One that is there is brought up to what this version knows, by server-side apply, unless it
serves a version that this program has never heard of: then a newer release has been here, and an older one must not
take anything away. Either way the caller goes on only when the API server says Established: before that, an informer
would be answered 404.
"""

import anyio
import structlog

from gpustack_ctl import crds
from gpustack_ctl.kube.apply import subset_equal
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import NotFound
from gpustack_ctl.kube.objects import Obj, is_true, name_of
from gpustack_ctl.kube.resources import CRDS

log = structlog.get_logger()

MANAGER = "gpustack-crds"
POLL_SECONDS = 0.2


async def ensure(kube: Kube) -> None:
    """Return when every CRD of ours is served."""
    for manifest in crds.all():
        await _ensure(kube, manifest)


async def _ensure(kube: Kube, manifest: Obj) -> None:
    name = name_of(manifest)
    live = await _read(kube, name)
    if live is None or (not _is_newer(live, manifest) and not subset_equal(manifest, live)):
        log.info("applying a CRD", crd=name)
        live = await kube.apply(CRDS, manifest, manager=MANAGER)
    while live is None or not is_true(live, "Established"):
        await anyio.sleep(POLL_SECONDS)
        live = await _read(kube, name)


async def _read(kube: Kube, name: str) -> Obj | None:
    try:
        return await kube.get(CRDS, name)
    except NotFound:
        return None


def _is_newer(live: Obj, manifest: Obj) -> bool:
    """Whether the cluster's CRD knows a version that ours does not."""
    ours, theirs = ({version["name"] for version in crd["spec"]["versions"]} for crd in (manifest, live))
    return not theirs <= ours
