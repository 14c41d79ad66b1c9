"""A real cluster as local processes: etcd, Kubernetes' programs and Kueue, bound to 127.0.0.1.

Everything that can start together does: the control plane and a node's containerd meet only at the kubelet.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio

from gpustack_ctl.localcluster import kueue, programs
from gpustack_ctl.localcluster.api import Api, Obj, connect, write_kubeconfig
from gpustack_ctl.localcluster.assets import Assets, find_assets
from gpustack_ctl.localcluster.errors import LocalClusterError, first_error
from gpustack_ctl.localcluster.fakenodes import fake_name
from gpustack_ctl.localcluster.health import ADMIN, Health
from gpustack_ctl.localcluster.node import LocalNode
from gpustack_ctl.localcluster.pki import Authority
from gpustack_ctl.localcluster.polling import until
from gpustack_ctl.localcluster.programs import Ports
from gpustack_ctl.localcluster.progress import Progress, Terminal
from gpustack_ctl.localcluster.requirements import check_kubelet, check_platform
from gpustack_ctl.localcluster.run import Program, Run, exclusive
from gpustack_ctl.localcluster.spec import ClusterSpec, ClusterStatus, ProgramStatus

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


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
        return _kubeconfig(self._run, user, groups=groups)

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


def _check_same(run: Run, spec: ClusterSpec) -> None:
    """What runs must be what is asked for: a kubelet is not added behind a person's back."""
    wanted = {f"kubelet@{spec.node_name}": spec.kubelet, "fake-nodes": spec.fake_nodes > 0}
    if missing := [name for name, asked in wanted.items() if asked and name not in run.programs]:
        raise LocalClusterError(
            f"a cluster without {' and '.join(missing)} is up in {run.directory}",
            "End it first (`gpustack-ctl local down`), or choose another directory with --dir.",
        )


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


async def _status(run: Run) -> ClusterStatus:
    async with Health(run.authority) as health:
        programs = [
            ProgramStatus(name, pid.number, pid.alive and await health.answers(run.programs[name].probe), run.log(name))
            for name, pid in run.pids.items()
        ]
    return ClusterStatus(all(p.ready for p in programs), run.directory, run.kubeconfig, tuple(programs))


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
    run = Run(spec.directory, die_with_parent=spec.die_with_parent)
    cluster = LocalCluster(spec, run, assets)
    api_ready = anyio.Event()
    try:
        ports = _prepare(run)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_control_plane, spec, run, assets, ports, api_ready)
            if spec.kubelet:
                tasks.start_soon(partial(cluster.add_node, spec.node_name, after=api_ready))
    except BaseException as error:
        await cluster.down()
        if (first := first_error(error)) is not None:
            raise first from first.__cause__
        raise
    return cluster


def _prepare(run: Run) -> Ports:
    """What is only files: the authority, the admin, and the ports that both will name."""
    ports = Ports.free()
    run.server = f"https://127.0.0.1:{ports.api}"
    Authority.create(run.directory / "pki")
    _kubeconfig(run, ADMIN, groups=("system:masters",), path=run.kubeconfig)
    return ports


async def _control_plane(spec: ClusterSpec, run: Run, assets: Assets, ports: Ports, api_ready: anyio.Event) -> None:
    await run.start(_flagged(spec, programs.etcd(run, assets, ports)))
    await run.start(_flagged(spec, programs.api_server(run, assets, ports, audit=spec.audit)))
    api_ready.set()
    controller_manager = _kubeconfig(
        run, "system:kube-controller-manager", groups=("system:masters",), file_name="kube-controller-manager"
    )
    scheduler = _kubeconfig(run, "system:kube-scheduler", file_name="kube-scheduler")
    async with anyio.create_task_group() as tasks:
        started = programs.controller_manager(run, assets, ports, controller_manager)
        tasks.start_soon(run.start, _flagged(spec, started))
        tasks.start_soon(run.start, _flagged(spec, programs.scheduler(run, assets, ports, scheduler)))
        tasks.start_soon(_kueue, spec, run, assets, ports)
        if spec.fake_nodes:
            tasks.start_soon(_fake_nodes, spec, run)


async def _fake_nodes(spec: ClusterSpec, run: Run) -> None:
    """A program of its own: the nodes must live as long as the cluster, which may outlive us."""
    module = ("-m", "gpustack_ctl.localcluster.fakenodes", str(run.kubeconfig), str(spec.fake_nodes))
    last = f"{run.server}/api/v1/nodes/{fake_name(spec.fake_nodes - 1)}"
    await run.start(Program("fake-nodes", (sys.executable, *module), last))


async def _kueue(spec: ClusterSpec, run: Run, assets: Assets, ports: Ports) -> None:
    """Kueue starts only once its definitions are established, and is to be asked as a webhook only once it serves."""
    config = kueue.configuration(
        spec.kueue,
        webhook_port=ports.kueue_webhook,
        health_port=ports.kueue_health,
        metrics_port=ports.kueue_metrics,
        certificates=kueue.issue_certificates(run),
    )
    webhooks = kueue.webhooks(
        assets.manifests,
        frameworks=config["integrations"]["frameworks"],
        webhook_port=ports.kueue_webhook,
        authority=run.authority.certificate,
    )
    kubeconfig = _kubeconfig(run, "kueue", groups=("system:masters",))
    async with connect(run.kubeconfig) as api:
        await api.create("/api/v1/namespaces", {"metadata": {"name": kueue.NAMESPACE}})
        await _establish(api, kueue.definitions(assets.manifests))
        await run.start(_flagged(spec, kueue.program(run, assets, config=config, kubeconfig=kubeconfig)))
        for configuration in webhooks:
            await api.create(f"{_REGISTRATION}/{configuration['kind'].lower()}s", configuration)


async def _establish(api: Api, definitions: list[Obj]) -> None:
    async with anyio.create_task_group() as tasks:
        for definition in definitions:
            tasks.start_soon(api.create, _CRDS, definition)
    wanted = {definition["metadata"]["name"] for definition in definitions}

    async def established() -> bool:
        return not wanted - _established(await api.get(_CRDS))

    if not await until(established, seconds=30):
        raise LocalClusterError("Kueue's CustomResourceDefinitions are not established after 30 s")


def _established(definitions: Obj) -> set[str]:
    return {
        item["metadata"]["name"]
        for item in definitions["items"]
        for condition in item.get("status", {}).get("conditions") or ()
        if condition["type"] == "Established" and condition["status"] == "True"
    }


def _flagged(spec: ClusterSpec, program: Program) -> Program:
    return Program(program.name, (*program.argv, *spec.flags.get(program.name, ())), program.probe, program.env)


def _kubeconfig(
    run: Run, user: str, *, groups: tuple[str, ...] = (), file_name: str | None = None, path: Path | None = None
) -> Path:
    file_name = file_name or user.replace(":", "-").replace("/", "-")
    path = path or run.directory / "users" / f"{file_name}.kubeconfig"
    pair = run.authority.issue(user, groups=groups, file_name=file_name)
    write_kubeconfig(
        path,
        server=run.server,
        authority=run.authority.certificate,
        certificate=pair.certificate,
        key=pair.key,
        user=user,
    )
    return path
