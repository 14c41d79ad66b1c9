"""Cambricon: an instance inside the driver (sMLU), made from a profile of compute and memory, and its device node.

A card must be in sMLU mode; the mode is read first and turned on, and never off, because that would end the instances
of other Pods. The instance carries the Pod's uid in its name, so that an answer given again finds it, and what is left
of a Pod that is gone is found without any note of our own.

Unverified on hardware. The calls and their order are those of Cambricon's own device plugin; that the driver keeps an
instance's name as it was given is assumed, and checked at every allocation by looking the instance up.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import anyio
from anyio import to_thread

from gpustack_ctl.agent.inventory import DetectedCard, DetectedModel
from gpustack_ctl.agent.responders.enforcer import Budget, Lack, ReleaseError
from gpustack_ctl.agent.responders.responder import DeviceNode, Grant, Response, ResponseRefused


class SmluError(Exception):
    """cnDev refused a call; the text says which, and with what code."""


class NoSmluError(SmluError):
    """The library or the driver has no sMLU at all; no command helps."""


@dataclass(frozen=True, slots=True)
class SmluInstance:
    name: str
    node: str


class Smlu(Protocol):
    """cnDev's sMLU calls. Cards are named by the driver's number; every call raises SmluError."""

    def cards(self) -> int: ...

    def is_on(self, card: int) -> bool: ...

    def turn_on(self, card: int) -> None: ...

    def instances(self, card: int) -> list[SmluInstance]: ...

    def create(self, card: int, name: str, *, quota: int, memory_bytes: int) -> None:
        """Make an instance from the profile of that quota and memory, which is made if there is none."""
        ...

    def destroy(self, card: int, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class SmluPlan:
    """The driver calls of a slice: an instance of this name, with this share of the compute and this memory."""

    card: int
    name: str
    quota: int
    memory_bytes: int


def plan(grant: Grant, card: DetectedCard, budget: Budget) -> SmluPlan:
    # The driver's names end at 99 bytes; a uid and a container's name may be longer together.
    container = hashlib.sha256(grant.container["name"].encode()).hexdigest()[:12]
    return SmluPlan(card.driver_index, f"{grant.pod.uid}-{container}", budget.cores, budget.memory_mib * 2**20)


class CambriconEnforcer:
    def __init__(self, smlu: Smlu) -> None:
        self._smlu = smlu
        self._changing = anyio.Lock()

    async def lacks(self, _model: DetectedModel, card: DetectedCard) -> Lack | None:
        try:
            await to_thread.run_sync(self._smlu.is_on, card.driver_index)
        except NoSmluError as error:
            return Lack(str(error), "install Cambricon's driver 5.10.27 or later with its libcndev.so")
        except SmluError:
            return None  # the mode may still be turned on, and that call's answer is the one that counts
        return None

    async def enforce(self, grant: Grant, card: DetectedCard, budget: Budget) -> Response:
        planned = plan(grant, card, budget)
        async with self._changing:
            node = await to_thread.run_sync(self._make, planned, card)
        return Response(devices=(DeviceNode(node),))

    async def release(self, uid: str) -> None:
        async with self._changing:
            try:
                await to_thread.run_sync(self._take_away, uid)
            except NoSmluError:
                return  # then there is none to take away
            except SmluError as error:
                raise ReleaseError(f"the sMLU instances of Pod {uid} cannot be destroyed: {error}") from error

    def _make(self, planned: SmluPlan, card: DetectedCard) -> str:
        self._turn_on(planned.card, card)
        try:
            if self._find(planned) is None:
                self._smlu.create(planned.card, planned.name, quota=planned.quota, memory_bytes=planned.memory_bytes)
            made = self._find(planned)
        except SmluError as error:
            with suppress(SmluError):
                self._smlu.destroy(planned.card, planned.name)
            raise ResponseRefused(f"no sMLU instance can be made on {card.id}: {error}") from error
        if made is None:
            raise ResponseRefused(
                f"the driver of {card.id} made an sMLU instance and does not list it as {planned.name}"
            )
        return made.node

    def _turn_on(self, index: int, card: DetectedCard) -> None:
        unread = ""
        try:
            if self._smlu.is_on(index):
                return
        except SmluError as error:
            unread = f", nor read ({error})"
        try:
            self._smlu.turn_on(index)
        except SmluError as error:
            raise ResponseRefused(
                f"the sMLU mode of {card.id} cannot be turned on{unread}: {error}; "
                f"turn it on with: cnmon set -c {index} -smlu on"
            ) from error

    def _find(self, planned: SmluPlan) -> SmluInstance | None:
        return next((found for found in self._smlu.instances(planned.card) if found.name == planned.name), None)

    def _take_away(self, uid: str) -> None:
        for card in range(self._smlu.cards()):
            for instance in self._smlu.instances(card):
                if instance.name.startswith(f"{uid}-"):
                    self._smlu.destroy(card, instance.name)
