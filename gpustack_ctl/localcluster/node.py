"""A node with a kubelet: one kubelet and one containerd, alone in a mount and a PID namespace.

The namespaces are what makes a node disposable. Ending the sandbox's first process ends the kubelet, containerd, every
shim and every container; with the last of them go the mounts and the Pods' network namespaces, and nothing of it was
ever seen by the machine. They also let many kubelets live here: each has its own /var/lib/kubelet, which is a
directory of the run, so that a device plugin outside finds the kubelet's sockets at ``kubelet_dir``.
"""

import random
import subprocess
from pathlib import Path
from shlex import quote

import anyio
import orjson

from gpustack_ctl.localcluster import images, mountpoints
from gpustack_ctl.localcluster.api import Api, Obj, connect
from gpustack_ctl.localcluster.assets import Assets
from gpustack_ctl.localcluster.errors import LocalClusterError
from gpustack_ctl.localcluster.polling import until
from gpustack_ctl.localcluster.processes import free_ports, tail
from gpustack_ctl.localcluster.requirements import CNI
from gpustack_ctl.localcluster.run import NODE_PREFIX, Program, Run
from gpustack_ctl.localcluster.users import issue_kubeconfig

_KUBELET_DIR = Path("/var/lib/kubelet")
_HIDDEN = (Path("/run/containerd"), Path("/run/netns"), Path("/var/lib/cni"), Path("/var/log/containers"))
"""Where containerd, runc, CNI and the kubelet write whatever their configuration says: empty and private in here."""

_READY_SECONDS = 60

_KUBELET: Obj = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "address": "127.0.0.1",
    "healthzBindAddress": "127.0.0.1",
    "authorization": {"mode": "AlwaysAllow"},  # to whoever holds a certificate of the run
    # Topology-aware scheduling reads allocatable, so a device that appears must show at once; nothing else is urgent.
    "nodeStatusUpdateFrequency": "1s",
    "nodeStatusReportFrequency": "1m",
    "cgroupDriver": "cgroupfs",
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "failCgroupV1": False,
    "failSwapOn": False,
    "localStorageCapacityIsolation": False,
    "makeIPTablesUtilChains": False,
    "serializeImagePulls": False,
    # The machine's own disk and memory are its user's business: nothing is evicted, no image collected.
    "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
    "imageGCHighThresholdPercent": 100,
}


def kubelet_dir_of(directory: Path, node: str) -> Path:
    """Where the /var/lib/kubelet of a run's node is found from outside: device-plugins/kubelet.sock and so on."""
    return directory / f"{NODE_PREFIX}{node}" / "kubelet"


class LocalNode:
    """A kubelet with its containerd. ``prepare`` does all that needs no API server, ``join`` the rest."""

    def __init__(self, name: str, run: Run, assets: Assets) -> None:
        self.name = name
        self._run = run
        self._assets = assets
        self._directory = run.directory / f"{NODE_PREFIX}{name}"

    @property
    def kubelet_dir(self) -> Path:
        """Path outside of the node's /var/lib/kubelet: device-plugins/kubelet.sock, pod-resources/kubelet.sock."""
        return kubelet_dir_of(self._run.directory, self.name)

    async def prepare(self) -> None:
        """Sandbox, containerd and the images."""
        self._directory.mkdir(parents=True)
        for name in ("kubelet", "pods", "containerd", "net.d"):
            (self._directory / name).mkdir()
        with mountpoints.made((_KUBELET_DIR, *_HIDDEN)) as leftovers:
            self._run.leaves(leftovers)
            await self._run.start(self._sandbox())
        await self._run.start(self._containerd())
        await self._import_images()

    async def join(self) -> None:
        """The kubelet; returns once the Node is Ready."""
        run = self._run
        kubeconfig = issue_kubeconfig(run, f"system:node:{self.name}", groups=("system:nodes",), name=self._user)
        async with connect(run.kubeconfig) as api:
            await self._introduce(api)
            await run.start(self._kubelet(kubeconfig))
            await self._ready(api)

    def _sandbox(self) -> Program:
        entered = self._directory / "entered"
        forwarding = self._directory / "ip_forward"
        forwarding.touch()
        script = "; ".join(
            (
                "set -e",
                f"exec 9<{mountpoints.GUARD}",
                "flock --shared 9",
                f"mount --bind {quote(str(self.kubelet_dir))} {_KUBELET_DIR}",
                *(f"mount -t tmpfs none {path}" for path in _HIDDEN),
                # The ptp plugin turns the machine into a router; what it writes for that ends here.
                f"mount --bind {quote(str(forwarding))} /proc/sys/net/ipv4/ip_forward",
                f"touch {quote(str(entered))}",
                # The first process of a PID namespace inherits its orphans; a shell buries them while it waits.
                "while :; do sleep 3600 & wait; done",
            )
        )
        unshare = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--propagation", "private")
        argv = (*unshare, "--", "sh", "-c", script)
        return Program(f"sandbox@{self.name}", argv, f"file://{entered}", forks=True)

    def _containerd(self) -> Program:
        config = self._directory / "containerd.toml"
        config.write_text(_containerd_config(self._directory, self._socket))
        _network(self._directory / "net.d" / "10-pods.conflist", leases=self._directory / "addresses")
        argv = self._inside("containerd", "--config", str(config))
        return Program(f"containerd@{self.name}", argv, f"unix://{self._socket}", forks=True)

    def _kubelet(self, kubeconfig: Path) -> Program:
        port, health_port = free_ports(2)
        serving = self._run.authority.pair(self._user)
        config = self._directory / "kubelet.json"
        own = {
            "port": port,
            "healthzPort": health_port,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self._run.authority.certificate)},
            },
            "tlsCertFile": str(serving.certificate),
            "tlsPrivateKeyFile": str(serving.key),
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "podLogsDir": str(self._directory / "pods"),
        }
        config.write_bytes(orjson.dumps({**_KUBELET, **own}, option=orjson.OPT_INDENT_2))
        flags = (
            f"--config={config}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={self.name}",
            "--cloud-provider=external",
        )
        argv = self._inside(self._assets.program("kubelet"), *flags)
        return Program(f"kubelet@{self.name}", argv, f"http://127.0.0.1:{health_port}/healthz", forks=True)

    @property
    def _user(self) -> str:
        return f"{NODE_PREFIX}{self.name}"

    @property
    def _socket(self) -> str:
        return str(self._directory / "containerd.sock")

    def _inside(self, *argv: str) -> tuple[str, ...]:
        init = self._run.pids[f"sandbox@{self.name}"].number
        return ("nsenter", f"--target={init}", "--mount", "--pid", "--", *argv)

    async def _import_images(self) -> None:
        archive = self._directory / "images.tar"
        await anyio.to_thread.run_sync(images.write_archive, archive)
        ctr = self._inside("ctr", f"--address={self._socket}", "--namespace=k8s.io", "images", "import", str(archive))
        done = await anyio.run_process(ctr, check=False, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise LocalClusterError(f"containerd does not take the images:\n{done.stdout.decode(errors='replace')}")

    async def _introduce(self, api: Api) -> None:
        """Make the Node before the kubelet does, to give it an address that the kubelet would refuse to choose.

        A kubelet takes no loopback address for its own, but believes one that a cloud provider has set; that provider
        is us. The API server then reaches the kubelet (logs, exec) on 127.0.0.1, and nobody else does.
        """
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": self.name}]
        labels = {"kubernetes.io/hostname": self.name}
        node = {"metadata": {"name": self.name, "labels": labels}, "status": {"addresses": addresses}}
        await api.create("/api/v1/nodes", node)

    async def _ready(self, api: Api) -> None:
        async def ready() -> bool:
            return _is_ready(await api.get(f"/api/v1/nodes/{self.name}"))

        if not await until(ready, seconds=_READY_SECONDS):
            log = self._run.log(f"kubelet@{self.name}")
            raise LocalClusterError(f"node {self.name} is not Ready after {_READY_SECONDS} s:\n{tail(log)}")


def _containerd_config(directory: Path, socket: str) -> str:
    return f"""\
version = 2
root = "{directory}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{images.PAUSE}"
# Lowering a score takes CAP_SYS_RESOURCE, which root in a container or a micro-VM often lacks.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI}"
conf_dir = "{directory}/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def _network(path: Path, *, leases: Path) -> None:
    """A pair of interfaces for each Pod, in a range that is reserved for benchmarks: no network anywhere has it."""
    third, half = random.randrange(256), random.choice((0, 128))  # noqa: S311 (so that two runs rarely meet)
    subnet = f"198.{random.choice((18, 19))}.{third}.{half}/25"  # noqa: S311
    ranges = {"type": "host-local", "subnet": subnet, "dataDir": str(leases)}
    plugin = {"type": "ptp", "ipMasq": False, "ipam": ranges}
    path.write_bytes(orjson.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [plugin]}))


def _is_ready(node: Obj) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
    return ready and not any(taint["effect"] == "NoSchedule" for taint in node["spec"].get("taints", ()))
