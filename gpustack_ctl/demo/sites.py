"""Where the story can be played: on a cluster of its own, or on one that a kubeconfig names."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.kueue_config import kueue_configuration
from gpustack_ctl.demo.existing import check_kubelet, check_kueue, choose_node
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj, name_of
from gpustack_ctl.localcluster import cluster, images
from gpustack_ctl.localcluster.node import kubelet_dir_of
from gpustack_ctl.localcluster.progress import Progress
from gpustack_ctl.localcluster.spec import ClusterSpec, default_directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A cluster that is up, a node of it whose kubelet can be reached from here, and an image its Pods can run."""

    kubeconfig: str | None
    context: str | None = None
    node: str
    kubelet_dir: Path
    state_dir: Path
    image: str
    logs: str
    webhook_url: str | None = None


@asynccontextmanager
async def local_site(*, keep: bool, progress: Progress) -> AsyncIterator[Site]:
    """A cluster made for the story: gone with it, or left up for a person to look at (`keep`)."""
    spec = ClusterSpec(
        directory=default_directory().with_name("demo"),
        kueue=kueue_configuration(manufacturers()),
        die_with_parent=not keep,
    )
    async with _running(spec, keep=keep, progress=progress):
        with _state() as state:
            yield Site(
                kubeconfig=str(spec.directory / "kubeconfig"),
                node=spec.node_name,
                kubelet_dir=kubelet_dir_of(spec.directory, spec.node_name),
                state_dir=state,
                image=images.BUSYBOX,
                logs=str(spec.directory / "logs"),
            )


@asynccontextmanager
async def existing_site(
    *,
    kubeconfig: str | None,
    context: str | None,
    node: str | None,
    kubelet_dir: Path,
    webhook_url: str | None,
    install_kueue: bool,
) -> AsyncIterator[Site]:
    """Somebody's cluster, looked over first. Raises UnfitClusterError with what is missing and how to get it."""
    async with Kube.connect(kubeconfig=kubeconfig, context=context) as kube:
        await check_kueue(kube, install=install_kueue)
        chosen = await choose_node(kube, node)
    check_kubelet(kubelet_dir, name_of(chosen))
    with _state() as state:
        yield Site(
            kubeconfig=kubeconfig,
            context=context,
            node=name_of(chosen),
            kubelet_dir=kubelet_dir,
            state_dir=state,
            image=_image(chosen),
            logs="on this terminal, with --log-level debug",
            webhook_url=webhook_url,
        )


@contextmanager
def _state() -> Iterator[Path]:
    """The agent's journal and markers: they speak of simulated cards, which end with the story."""
    with tempfile.TemporaryDirectory(prefix="gpustack-demo-") as directory:
        yield Path(directory)


def _image(node: Obj) -> str:
    """A node of the local cluster has busybox already; any other can pull it."""
    names = {name for image in (node.get("status") or {}).get("images") or () for name in image.get("names") or ()}
    return images.BUSYBOX if images.BUSYBOX in names else "busybox:1.36"


@asynccontextmanager
async def _running(spec: ClusterSpec, *, keep: bool, progress: Progress) -> AsyncIterator[None]:
    if keep:
        await cluster.up(spec, progress=progress)
        yield
        return
    async with cluster.local_cluster(spec, progress=progress):
        yield
