"""One node without a cluster: the agent's real parts, Pods put into the real store, and the kubelet's side of the
protocol spoken over real unix sockets."""

from pathlib import Path

from grpclib import GRPCError, Status

from gpustack_ctl.accel.families import KeyKind, manufacturers
from gpustack_ctl.agent.allocate import Allocator
from gpustack_ctl.agent.detectors.inventory_file import read_inventory
from gpustack_ctl.agent.detectors.simulated import SimulatedDetector
from gpustack_ctl.agent.hint import Hinter
from gpustack_ctl.agent.identify import Identifier
from gpustack_ctl.agent.journal import Journal
from gpustack_ctl.agent.node_ledger import NodeLedger
from gpustack_ctl.agent.node_lock import NodeLock
from gpustack_ctl.agent.plugin import DevicePlugin
from gpustack_ctl.agent.pod_resources import PodResources
from gpustack_ctl.agent.reservations import Reservations
from gpustack_ctl.agent.responders import responders
from gpustack_ctl.agent.simulated_partitions import SimulatedPartitions
from gpustack_ctl.agent.switches import switches
from gpustack_ctl.agent.tokens import PluginResource
from gpustack_ctl.agent.turns import Turns
from gpustack_ctl.kube.store import Store
from gpustack_ctl.proto import podresources_pb2 as listing
from gpustack_ctl.proto.podresources_grpc import PodResourcesListerBase

NODE = "node-1"
TABLE = manufacturers()

FOUR_A10G = "cards: [{model: NVIDIA A10G, manufacturer: nvidia, count: 4, memoryMib: 24576}]"
TWO_MIG_A100 = "cards: [{model: NVIDIA A100-SXM4-80GB, manufacturer: nvidia, count: 2, memoryMib: 81920, mig: true}]"


class Kubelet(PodResourcesListerBase):
    """What a kubelet knows of its Pods, served as the kubelet serves it: `held` is devices by (Pod, container)."""

    def __init__(self) -> None:
        self.pods: list[dict] = []
        self.held: dict[tuple[str, str], dict[str, list[str]]] = {}
        self.refusals: list[Status] = []

    async def List(self, stream) -> None:  # noqa: N802 - the service's own name
        await stream.recv_message()
        if self.refusals:
            raise GRPCError(self.refusals.pop(0), "not now")
        await stream.send_message(listing.ListPodResourcesResponse(pod_resources=map(self._listed, self.pods)))

    def _listed(self, pod):
        name = pod["metadata"]["name"]
        sidecars = [
            container
            for container in pod["spec"].get("initContainers", ())
            if container.get("restartPolicy") == "Always"
        ]
        return listing.PodResources(
            name=name,
            namespace=pod["metadata"]["namespace"],
            containers=[
                listing.ContainerResources(
                    name=container["name"],
                    devices=[
                        listing.ContainerDevices(resource_name=resource, device_ids=ids)
                        for resource, ids in self.held.get((name, container["name"]), {}).items()
                    ],
                )
                for container in [*sidecars, *pod["spec"]["containers"]]
            ],
        )


class Told:
    """Events as they were told."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str]] = []

    def emit(self, obj, *, message, **_) -> None:
        self.messages.append((obj["kind"], message))


class OneNode:
    """The agent of one node, and the kubelet's calls to it."""

    def __init__(self, directory: Path, inventory: str, env: dict[str, str]) -> None:
        self.directory = directory
        self.inventory = inventory
        self.kubelet = Kubelet()
        self.pods = Store()
        self.told = Told()
        self._switches = switches({"GPUSTACK_NVIDIA_SLICE_ISOLATION": "off", **env}, manufacturers=TABLE.by_key)
        self._version = 0

    async def boot(self) -> None:
        """A new agent process on the same disk."""
        self.reservations = Reservations(Journal(self.directory / "journal"))
        self.ledger = NodeLedger(node_name=NODE, pods=self.pods, reservations=self.reservations, table=TABLE)
        file = read_inventory(self.inventory, source="inventory.yaml", table=TABLE)
        self.ledger.inventory = await SimulatedDetector(file, node_name=NODE, table=TABLE).detect()
        self.pod_resources = PodResources(self.directory)
        identifier = Identifier(
            pods=self.pods,
            kube=None,
            reservations=self.reservations,
            pod_resources=self.pod_resources if self._switches.identify_by_kubelet else None,
        )
        self.turns = Turns(
            ledger=self.ledger, identifier=identifier, pods=self.pods, reservations=self.reservations, table=TABLE
        )
        lock = NodeLock()
        self.hinter = Hinter(self.turns, lock=lock)
        self.allocator = Allocator(
            self.turns,
            reservations=self.reservations,
            partitions=SimulatedPartitions(self.directory / "partitions", file.call_failures),
            responders=responders(TABLE, switches=self._switches, state_dir=self.directory),
            events=self.told,
            node={"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}},
            lock=lock,
            slice_gate=self._switches.sliced_allocate_gate,
        )
        await self.reservations.load()

    def resource(self, kind: KeyKind) -> PluginResource:
        return PluginResource(TABLE.by_key["nvidia"], kind)

    def plugin(self, kind: KeyKind) -> DevicePlugin:
        return DevicePlugin(
            self.resource(kind),
            ledger=self.ledger,
            reservations=self.reservations,
            hinter=self.hinter,
            allocator=self.allocator,
        )

    def put(self, pod: dict) -> dict:
        """The Pod as the watch tells of it."""
        self._version += 1
        pod["metadata"]["resourceVersion"] = str(self._version)
        self.pods.put(pod)
        return pod

    def admit(self, name: str, *containers: dict, **spec) -> dict:
        """A Pod that the watch has shown and that the kubelet is admitting."""
        pod = self.put(a_pod(name, *containers, **spec))
        self.kubelet.pods.append(pod)
        return pod

    def free_tokens(self, kind: KeyKind) -> list[str]:
        """What the kubelet may hand out: healthy, and nobody's."""
        resource = self.resource(kind)
        held = self.reservations.tokens(resource.name)
        offers = resource.offers(self.ledger.current.states, held=held)
        return [offer.id for offer in offers if offer.healthy and offer.id not in held]

    async def allocate(self, kind: KeyKind, count: int = 1, *, tokens: list[str] | None = None, heard: str = ""):
        """The kubelet's two calls for the container at the counter; `heard` is the Pod whose answer it remembers."""
        resource = self.resource(kind)
        if tokens is None:
            free = self.free_tokens(kind)
            tokens = (
                []
                if resource.fungible
                else await self.hinter.prefer(resource, available=free, must_include=[], size=count)
            )
            tokens = tokens or free[:count]
        response = await self.allocator.allocate(resource, tokens)
        if heard:
            self.kubelet.held.setdefault((heard, "main"), {})[resource.name] = tokens
        return response

    def held(self, pod: dict) -> dict[str, list[str]]:
        """Cards by container, as promised."""
        record = self.reservations.record(pod["metadata"]["uid"])
        return {container: [entry.id for entry in entries] for container, entries in record.items()}

    @property
    def modes(self) -> list[int]:
        return [int(state.mode) for state in self.ledger.current.states]


def a_pod(name: str, *containers: dict, **spec) -> dict:
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {},
        },
        "spec": {"containers": list(containers), **spec},
        "status": {"phase": "Pending"},
    }


def asks(limits: dict, *, name: str = "main", **rest) -> dict:
    return {"name": name, "resources": {"limits": {key: str(value) for key, value in limits.items()}}, **rest}


def slice_of(percent: int, *, name: str = "main", **rest) -> dict:
    return asks({"nvidia.com/gpu.sliced": 1, "nvidia.com/gpu.sliced.memory-percentage": percent}, name=name, **rest)
