"""A real cluster as local processes: while a block runs (`local_cluster`), or until it is ended (`up`, `down`).

Everything that can start together does: the control plane and a node's containerd meet only at the kubelet. Whatever
goes wrong on the way, nothing is left behind but logs.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio

from gpustack_ctl.localcluster.assets import Assets, find_assets
from gpustack_ctl.localcluster.controlplane import ControlPlane
from gpustack_ctl.localcluster.errors import LocalClusterError, first_error
from gpustack_ctl.localcluster.health import Health
from gpustack_ctl.localcluster.node import LocalNode
from gpustack_ctl.localcluster.progress import Progress, Terminal
from gpustack_ctl.localcluster.requirements import check_kubelet, check_platform
from gpustack_ctl.localcluster.run import Run, exclusive
from gpustack_ctl.localcluster.spec import ClusterSpec, ClusterStatus, ProgramStatus
from gpustack_ctl.localcluster.users import issue_kubeconfig


class LocalCluster:
    """A running cluster; `local_cluster` makes one."""

    def __init__(self, spec: ClusterSpec, run: Run, assets: Assets) -> None:
        self.spec = spec
        self._run = run
        self._assets = assets
        self._nodes: dict[str, LocalNode] = {}

    @property
    def directory(self) -> Path:
        return self._run.directory

    @property
    def server(self) -> str:
        return self._run.server

    @property
    def kubeconfig(self) -> Path:
        """Of a cluster-admin."""
        return self._run.kubeconfig

    def log(self, program: str) -> Path:
        """Where a program writes; "audit" is the API server's audit log."""
        return self._run.log(program)

    def kubeconfig_for(self, user: str, *, groups: tuple[str, ...] = ()) -> Path:
        """A kubeconfig for another user, who may do what RBAC gives the name and the groups. Any time, no restart."""
        return issue_kubeconfig(self._run, user, groups=groups)

    async def kill(self, program: str) -> None:
        """SIGKILL one program and wait until it is gone: "etcd", "kube-apiserver", "kube-controller-manager",
        "kube-scheduler", "kueue", "kubelet@NODE", "containerd@NODE"."""
        await self._run.kill(program)

    async def start(self, program: str) -> None:
        """Start a killed program again, on the same port and data, and wait until it is ready."""
        await self._run.start(self._run.program(program))

    async def add_node(self, name: str, *, after: anyio.Event | None = None) -> LocalNode:
        """One more kubelet with its own containerd; returns once the Node is Ready.

        ``after`` is set once the API server answers: all that needs none of it is done before.
        """
        check_kubelet()
        node = LocalNode(name, self._run, self._assets)
        await node.prepare()
        if after is not None:
            await after.wait()
        await node.join()
        self._nodes[name] = node
        return node

    def node(self, name: str | None = None) -> LocalNode:
        """A node that has a kubelet; without a name, the one that came up with the cluster."""
        return self._nodes[name or self.spec.node_name]

    async def status(self) -> ClusterStatus:
        """What runs, asked of the programs themselves."""
        return await _status(self._run)

    async def down(self) -> None:
        """End everything and remove everything but the logs."""
        with anyio.CancelScope(shield=True):
            await self._run.end()


@asynccontextmanager
async def local_cluster(spec: ClusterSpec, *, progress: Progress | None = None) -> AsyncIterator[LocalCluster]:
    """A cluster for as long as the block runs; nothing is left of it afterwards, however the block ends."""
    with exclusive(spec.directory):
        await _clear(spec.directory)
        cluster = await _bring_up(spec, progress or Terminal())
        try:
            yield cluster
        finally:
            await cluster.down()


async def up(spec: ClusterSpec, *, progress: Progress | None = None) -> ClusterStatus:
    """Bring a cluster up and leave it running; one that is up already is left as it is."""
    with exclusive(spec.directory):
        run = Run.load(spec.directory)
        if run is None or not run.whole:
            await _clear(spec.directory)
            await _bring_up(spec, progress or Terminal())
        else:
            _check_same(run, spec)
    return await status(spec.directory)


async def down(directory: Path) -> bool:
    """End a run and remove all of it but its logs; False when there was none."""
    if Run.load(directory) is None:
        return False
    with exclusive(directory):
        return await _clear(directory)


async def status(directory: Path) -> ClusterStatus:
    """What runs in a directory, asked of the programs themselves."""
    run = Run.load(directory)
    return ClusterStatus(False, directory, None, ()) if run is None else await _status(run)


def _check_same(run: Run, spec: ClusterSpec) -> None:
    """What runs must be what is asked for: a kubelet is not added behind a person's back."""
    wanted = {f"kubelet@{spec.node_name}": spec.kubelet, "fake-nodes": spec.fake_nodes > 0}
    if missing := [name for name, asked in wanted.items() if asked and name not in run.programs]:
        raise LocalClusterError(
            f"a cluster without {' and '.join(missing)} is up in {run.directory}",
            "End it first (`gpustack-ctl local down`), or choose another directory with --dir.",
        )


async def _status(run: Run) -> ClusterStatus:
    async with Health(run.authority) as health:
        programs = [
            ProgramStatus(name, pid.number, pid.alive and await health.answers(run.programs[name].probe), run.log(name))
            for name, pid in run.pids.items()
        ]
    return ClusterStatus(
        run.complete and all(p.ready for p in programs), run.directory, run.kubeconfig, tuple(programs)
    )


async def _clear(directory: Path) -> bool:
    """End what an earlier run left, dead or half alive."""
    run = Run.load(directory)
    with anyio.CancelScope(shield=True):
        await (run or Run(directory)).end()
    return run is not None


async def _bring_up(spec: ClusterSpec, progress: Progress) -> LocalCluster:
    """Start what ``spec`` names in a directory where nothing runs: all of it is ready on return, or none is left."""
    check_platform()
    if spec.kubelet:
        check_kubelet()
    assets = await find_assets(progress)
    progress.say(f"bringing up a cluster in {spec.directory}")
    run = Run(spec.directory, flags=spec.flags, die_with_parent=spec.die_with_parent)
    cluster = LocalCluster(spec, run, assets)
    control_plane = ControlPlane(spec, run, assets)
    try:
        control_plane.prepare()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(control_plane.start)
            if spec.kubelet:
                tasks.start_soon(partial(cluster.add_node, spec.node_name, after=control_plane.api_ready))
        run.complete = True
        run.save()
    except BaseException as error:
        await cluster.down()
        if (first := first_error(error)) is not None:
            raise first from first.__cause__
        raise
    return cluster
