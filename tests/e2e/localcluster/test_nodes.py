"""Nodes with a real kubelet: Pods run, what they print can be read back, and nothing of a node outlives it."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from gpustack_ctl.localcluster import ClusterSpec, LocalCluster, down, polling, status, up
from gpustack_ctl.localcluster.api import Api, ApiStatusError, connect
from gpustack_ctl.localcluster.images import BUSYBOX


@pytest.fixture
async def api(cluster: LocalCluster) -> AsyncIterator[Api]:
    async with connect(cluster.kubeconfig) as api:
        yield api


@pytest.fixture
def directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="gsl-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


def pod(name: str, *command: str, node: str | None = None, mounts: dict[str, str] | None = None) -> dict[str, Any]:
    mounts = mounts or {}
    container = {
        "name": "main",
        "image": BUSYBOX,
        "command": list(command),
        "volumeMounts": [{"name": volume, "mountPath": f"/{volume}"} for volume in mounts],
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "volumes": [{"name": volume, "hostPath": {"path": path}} for volume, path in mounts.items()],
    }
    return {"metadata": {"name": name}, "spec": {**spec, **({"nodeName": node} if node else {})}}


def container_of(pod: Any) -> Any:
    [container] = pod["status"]["containerStatuses"]
    return container


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    assert await polling.until(holds, seconds=30), "not within 30 s"


async def reaches(api: Api, path: str, phase: str) -> Any:
    async def reached() -> bool:
        return bool((await api.get(path))["status"]["phase"] == phase)

    await until(reached)
    return await api.get(path)


async def prints(api: Api, path: str, text: str) -> None:
    """A log follows its container by a moment, and a kubelet that has just started knows no Pods yet."""

    async def printed() -> bool:
        try:
            return bool(await api.get(f"{path}/log") == text)
        except ApiStatusError as error:
            if error.status != 404:
                raise
            return False

    await until(printed)


async def test_a_pod_runs_and_its_output_is_read_through_the_api_server(api: Api, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await api.create(pods, pod("prints", "sh", "-c", "echo $((6 * 7)) of $HOSTNAME"))
    await reaches(api, f"{pods}/prints", "Succeeded")
    assert await api.get(f"{pods}/prints/log") == "42 of prints\n"


async def test_a_container_sees_files_that_this_machine_wrote_after_the_node_came_up(
    api: Api, namespace: str, directory: Path
) -> None:
    (directory / "note").write_text("from outside")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await api.create(pods, pod("reads", "cat", "/shared/note", mounts={"shared": str(directory)}))
    await reaches(api, f"{pods}/reads", "Succeeded")
    assert await api.get(f"{pods}/reads/log") == "from outside"


async def test_the_kubelets_sockets_take_connections_from_outside(cluster: LocalCluster) -> None:
    for socket in ("device-plugins/kubelet.sock", "pod-resources/kubelet.sock"):
        stream = await anyio.connect_unix(cluster.node().kubelet_dir / socket)
        await stream.aclose()


async def test_a_running_pod_outlives_its_kubelet(cluster: LocalCluster, api: Api, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await api.create(pods, pod("stays", "sh", "-c", "echo once; sleep 600"))
    before = await reaches(api, f"{pods}/stays", "Running")
    await cluster.kill("kubelet@gpustack-local")
    await cluster.start("kubelet@gpustack-local")
    await prints(api, f"{pods}/stays", "once\n")
    after = await api.get(f"{pods}/stays")
    assert container_of(after)["containerID"] == container_of(before)["containerID"]
    assert container_of(after)["restartCount"] == 0


async def test_two_nodes_run_pods_side_by_side(cluster: LocalCluster, api: Api, namespace: str) -> None:
    second = await cluster.add_node("node-b")
    assert second.kubelet_dir != cluster.node().kubelet_dir
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for name in ("gpustack-local", "node-b"):
        await api.create(pods, pod(f"on-{name}", "sh", "-c", "echo here; sleep 600", node=name))
    for name in ("gpustack-local", "node-b"):
        await reaches(api, f"{pods}/on-{name}", "Running")
        await prints(api, f"{pods}/on-{name}", "here\n")


async def test_the_end_of_one_node_leaves_the_mounts_of_another(
    cluster: LocalCluster, api: Api, namespace: str, directory: Path
) -> None:
    await up(ClusterSpec(directory=directory, node_name="node-d", die_with_parent=True))
    await down(directory)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await api.create(pods, pod("after", "sleep", "600", node=cluster.spec.node_name))
    uid = (await reaches(api, f"{pods}/after", "Running"))["metadata"]["uid"]
    assert await anyio.Path(cluster.node().kubelet_dir / "pods" / uid).is_dir()


def directories_outside() -> list[str]:
    """Mount points of a node that this machine has, for reasons of its own or of ours."""
    return [path for path in ("/var/lib/kubelet", "/var/lib/cni", "/run/netns") if Path(path).exists()]


def listed(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


class Traces:
    """Everything of a run that could outlive it on this machine, known by the run's own names for it."""

    def __init__(self, directory: Path) -> None:
        node = directory / "node-node-c"
        self.directory = directory
        self.containers = [path.name for path in node.glob("containerd/io.containerd.grpc.v1.cri/*/*")]
        network = json.loads((node / "net.d" / "10-pods.conflist").read_text())
        self.subnet = network["plugins"][0]["ipam"]["subnet"].rpartition(".")[0]

    def found(self) -> dict[str, int]:
        commands = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
        addresses = subprocess.run(["ip", "-o", "address"], capture_output=True, text=True, check=True).stdout
        cgroups = [path.name for path in Path("/sys/fs/cgroup").glob("**/k8s.io/*")]
        return {
            "processes": commands.count(str(self.directory)) + commands.count("sleep 98765"),
            "mounts": Path("/proc/mounts").read_text().count(str(self.directory)),
            "interfaces": addresses.count(f" {self.subnet}."),
            "cgroups": sum(cgroups.count(container) for container in self.containers),
        }


async def test_a_node_with_running_containers_leaves_no_trace(directory: Path) -> None:
    outside = directories_outside()
    found = await up(ClusterSpec(directory=directory, node_name="node-c", die_with_parent=True))
    assert {"sandbox@node-c", "containerd@node-c", "kubelet@node-c"} <= {one.name for one in found.programs}
    assert found.up
    async with connect(directory / "kubeconfig") as api:
        for number in range(3):
            await api.create("/api/v1/namespaces/default/pods", pod(f"pod-{number}", "sleep", "98765"))
        for number in range(3):
            await reaches(api, f"/api/v1/namespaces/default/pods/pod-{number}", "Running")
    traces = Traces(directory)
    while_up = traces.found()
    assert while_up["interfaces"] == 3
    assert while_up["processes"] > 9
    assert while_up["cgroups"] >= 6
    assert while_up["mounts"] == 0, "the node's mounts are in a namespace of its own"

    assert await down(directory)

    async def nothing() -> bool:  # the kernel takes a network namespace down in its own time
        return not any(traces.found().values())

    assert await polling.until(nothing, seconds=5), traces.found()
    assert listed(directory) == ["lock", "logs"]
    assert directories_outside() == outside
    assert not (await status(directory)).up
