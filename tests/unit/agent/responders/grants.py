"""Grants as the allocator makes them, and hosts with just the files that a test says."""

from pathlib import Path

from gpustack_ctl.accel.cards import Card, PodKey
from gpustack_ctl.accel.families import Family, manufacturers
from gpustack_ctl.accel.requests import ContainerDemand
from gpustack_ctl.agent.inventory import CardLocation, DetectedCard, DetectedModel
from gpustack_ctl.agent.responders import responders
from gpustack_ctl.agent.responders.host import Host
from gpustack_ctl.agent.responders.responder import Grant, Response
from gpustack_ctl.agent.switches import switches

TABLE = manufacturers()


def bus_id(index: int) -> str:
    return f"0000:{index + 1:02x}:00.0"


def grant(
    family: Family | None,
    *,
    manufacturer: str = "nvidia",
    cards: tuple[int, ...] = (0,),
    on_node: int = 2,
    cores: int = 30,
    memory_mib: int = 12288,
    runtime: str = "12.4",
    units: int = 0,
    env: tuple[str, ...] = (),
    instances: tuple[str, ...] = (),
    uid: str = "uid-1",
) -> Grant:
    """`cards` are granted of the `on_node` cards of the node; the driver counts from ten, and so tells them apart."""
    detected = tuple(
        DetectedCard(f"GPU-{index}", index, CardLocation(bus_id(index)), physical_indexes=(10 + index,))
        for index in range(on_node)
    )
    model = DetectedModel("m", manufacturer, "M", 24576, detected, cores=units, runtime_version=runtime, family="910B")
    given = [Card(f"GPU-{index}", index, "m", manufacturer, memory_mib=24576) for index in cards]
    demand = (
        ContainerDemand("main", "running", family, manufacturer, len(cards), 1, None, cores, memory_mib)
        if family
        else None
    )
    container = {"name": "main", "env": [{"name": name, "value": "mine"} for name in env]}
    return Grant(PodKey("default", "pod", uid), container, demand, given, model, instances)


def a_host(root: Path, *paths: str, drm: bool = True) -> Host:
    """A host with those paths, and with the kernel's DRM entries of the node's cards, card0 and renderD128 first."""
    host = Host(root)
    for path in paths:
        host.at(path).parent.mkdir(parents=True, exist_ok=True)
        host.at(path).touch()
    for index in range(2 if drm else 0):
        for name in (f"card{index}", f"renderD{128 + index}"):
            (host.pci(bus_id(index)) / "drm" / name).mkdir(parents=True)
            host.at(f"/dev/dri/{name}").parent.mkdir(parents=True, exist_ok=True)
            host.at(f"/dev/dri/{name}").touch()
    return host


async def respond(given: Grant, state_dir: Path, *, host: Host | None = None, **env: str) -> Response:
    turned = switches(env, manufacturers=TABLE.by_key)
    by_key = responders(TABLE, switches=turned, state_dir=state_dir, host=host or Host(state_dir / "nothing"))
    return await by_key[given.model.manufacturer].respond(given)
