"""The control plane of a run: etcd, the API server, and what stands on it: the two managers and Kueue.

etcd first, then the API server, then everything else at once.
"""

import shutil
import sys
from http import HTTPStatus

import anyio

from gpustack_ctl.localcluster import kueue, programs
from gpustack_ctl.localcluster.api import Api, ApiStatusError, Obj, connect
from gpustack_ctl.localcluster.assets import Assets
from gpustack_ctl.localcluster.errors import LocalClusterError
from gpustack_ctl.localcluster.fakenodes import fake_name
from gpustack_ctl.localcluster.health import ADMIN
from gpustack_ctl.localcluster.pki import Authority
from gpustack_ctl.localcluster.polling import until
from gpustack_ctl.localcluster.programs import Ports
from gpustack_ctl.localcluster.run import Program, Run
from gpustack_ctl.localcluster.spec import ClusterSpec
from gpustack_ctl.localcluster.users import EVERYTHING, issue_kubeconfig

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


class ControlPlane:
    """Brings one up in a run. ``api_ready`` is set as soon as the API server answers."""

    def __init__(self, spec: ClusterSpec, run: Run, assets: Assets) -> None:
        self.api_ready = anyio.Event()
        self._spec = spec
        self._run = run
        self._assets = assets
        self._ports = Ports.free()

    def prepare(self) -> None:
        """What is only files: the authority and the admin. Logs of an earlier run go now."""
        run = self._run
        shutil.rmtree(run.logs, ignore_errors=True)
        run.server = f"https://127.0.0.1:{self._ports.api}"
        Authority.create(run.authority.directory)
        issue_kubeconfig(run, ADMIN, groups=EVERYTHING, path=run.kubeconfig)

    async def start(self) -> None:
        """Everything is ready on return."""
        run, assets, ports = self._run, self._assets, self._ports
        await run.start(programs.etcd(run, assets, ports))
        await run.start(programs.api_server(run, assets, ports, audit=self._spec.audit))
        self.api_ready.set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run.start, programs.controller_manager(run, assets, ports))
            tasks.start_soon(run.start, programs.scheduler(run, assets, ports))
            tasks.start_soon(self._start_kueue)
            if self._spec.fake_nodes:
                tasks.start_soon(self._start_fake_nodes, self._spec.fake_nodes)

    async def _start_kueue(self) -> None:
        """Kueue starts only once its definitions are established, and is asked as a webhook only once it serves."""
        run, manifests, ports = self._run, self._assets.manifests, self._ports
        config = kueue.configuration(
            self._spec.kueue,
            webhook_port=ports.kueue_webhook,
            health_port=ports.kueue_health,
            metrics_port=ports.kueue_metrics,
            certificates=kueue.issue_certificates(run),
        )
        async with connect(run.kubeconfig) as api:
            await api.create("/api/v1/namespaces", {"metadata": {"name": kueue.NAMESPACE}})
            await _establish(api, kueue.definitions(manifests))
            await run.start(kueue.program(run, self._assets, config))
            for configuration in kueue.webhooks(
                manifests,
                frameworks=config["integrations"]["frameworks"],
                webhook_port=ports.kueue_webhook,
                authority=run.authority.certificate,
            ):
                await api.create(f"{_REGISTRATION}/{configuration['kind'].lower()}s", configuration)

    async def _start_fake_nodes(self, count: int) -> None:
        """A program of its own: the nodes must live as long as the cluster, which may outlive us."""
        run = self._run
        command = (sys.executable, "-m", "gpustack_ctl.localcluster.fakenodes", str(run.kubeconfig), str(count))
        await run.start(Program("fake-nodes", command, f"{run.server}/api/v1/nodes/{fake_name(count - 1)}"))


async def _establish(api: Api, definitions: list[Obj]) -> None:
    async with anyio.create_task_group() as tasks:
        for definition in definitions:
            tasks.start_soon(api.create, _CRDS, definition)
    wanted = {definition["metadata"]["name"] for definition in definitions}
    versions = {f"{d['spec']['group']}/{v['name']}" for d in definitions for v in d["spec"]["versions"] if v["served"]}

    async def established() -> bool:
        """Established, and discovered too: on a busy machine the one comes well before the other."""
        if wanted - _established(await api.get(_CRDS)):
            return False
        discovered = {name for version in versions for name in await _discovered(api, version)}
        return not wanted - discovered

    if not await until(established, seconds=30):
        raise LocalClusterError("Kueue's CustomResourceDefinitions are not served after 30 s")


async def _discovered(api: Api, version: str) -> set[str]:
    """The definitions whose resources the API server lists under `group/version`."""
    try:
        resources = (await api.get(f"/apis/{version}"))["resources"]
    except ApiStatusError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return set()
        raise
    group = version.partition("/")[0]
    return {f"{resource['name']}.{group}" for resource in resources}


def _established(definitions: Obj) -> set[str]:
    return {
        item["metadata"]["name"]
        for item in definitions["items"]
        for condition in item.get("status", {}).get("conditions") or ()
        if condition["type"] == "Established" and condition["status"] == "True"
    }
