"""What a container is given so that it sees its cards and no others.

A responder turns a grant (this container holds these cards in this family) into what the kubelet hands to the container
runtime: variables, mounts, device nodes, annotations. There is one per manufacturer, because only that differs between
them; who gets which card has been decided before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpustack_ctl.accel.cards import Card, PodKey
from gpustack_ctl.accel.families import Family, Manufacturer
from gpustack_ctl.accel.requests import ContainerDemand
from gpustack_ctl.agent.inventory import DetectedCard, DetectedModel


class ResponseRefused(Exception):  # noqa: N818 - a verdict, not an error of ours
    """The container cannot be given its cards on this host; the text says what is missing and how to get past it."""


@dataclass(frozen=True, slots=True)
class HostMount:
    """A path of the host, seen in the container."""

    container_path: str
    host_path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node of the host, seen in the container under the same path."""

    path: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True)
class Response:
    """What the kubelet hands to the container runtime."""

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[HostMount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Grant:
    """One container's cards, in ascending index. `instances` are the ids of its partitions, where it holds some.

    `demand` is None for a container that only looks at what a neighbour holds.
    """

    pod: PodKey
    container: Mapping[str, Any]
    demand: ContainerDemand | None
    cards: Sequence[Card]
    model: DetectedModel
    instances: tuple[str, ...] = ()

    @property
    def family(self) -> Family | None:
        return self.demand.family if self.demand else None

    @property
    def visible(self) -> tuple[str, ...]:
        """What the container is to see: its partitions where it has some, else its cards."""
        return self.instances or tuple(card.id for card in self.cards)

    def sets(self, variable: str) -> bool:
        """Whether the container's own `env` sets the variable."""
        return any(item.get("name") == variable for item in self.container.get("env") or ())


class Responder(Protocol):
    """One manufacturer's way."""

    async def respond(self, grant: Grant) -> Response:
        """Raises ResponseRefused; nothing is then left behind."""
        ...


def shown_whole(grant: Grant, manufacturer: Manufacturer) -> list[DetectedCard]:
    """The granted cards, to be shown as a whole: those of a slice too, which an enforcer then limits."""
    if grant.family is Family.PARTITIONED or (grant.family is Family.SLICED and not manufacturer.slices):
        raise ResponseRefused(
            f"{grant.family.value} accelerators of {manufacturer.key} cannot be given to containers by this version; "
            "ask for whole accelerators or shares"
        )
    return detected(grant)


def detected(grant: Grant) -> list[DetectedCard]:
    """The granted cards, as the detector saw them, in ascending index."""
    found = {card.id: card for card in grant.model.cards}
    missing = [card.id for card in grant.cards if card.id not in found]
    if missing:
        raise ResponseRefused(f"{', '.join(missing)} is not detected on this node any more")
    return [found[card.id] for card in grant.cards]
