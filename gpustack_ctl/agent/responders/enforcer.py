"""Slices held to their budget: what every manufacturer's enforcer is, and the responder around it.

A slice is a promise that its container stays within a share of a card's memory and compute. Each vendor keeps it by
other means, a preloaded library, a configuration file, an instance inside the driver, so each has an enforcer. Where
one lacks something on this host the slice is refused in words that name it: a slice that nobody holds to its budget
takes its neighbours' memory, and only an operator may decide to live with that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import structlog

from gpustack_ctl.accel.families import Family, Manufacturer
from gpustack_ctl.agent.inventory import DetectedCard, DetectedModel
from gpustack_ctl.agent.responders.responder import Grant, Responder, Response, ResponseRefused, detected
from gpustack_ctl.agent.switches import Switches, isolation_switch

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Budget:
    """What one slice may use of its card: per cent of the compute, MiB of the memory."""

    cores: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that the host is without; `remedy` is the command or the step that gets it."""

    what: str
    remedy: str


class Enforcer(Protocol):
    """One manufacturer's way to hold a slice to its budget."""

    async def lacks(self, model: DetectedModel, card: DetectedCard) -> Lack | None:
        """What this host is without to enforce a slice on the card. Changes nothing."""
        ...

    async def enforce(self, grant: Grant, card: DetectedCard, budget: Budget) -> Response:
        """Make the slice; what its container is given beside its card. The same again for one that asks again.

        Raises ResponseRefused or OSError, and whatever was made is then taken back by `release`.
        """
        ...


@runtime_checkable
class HoldsHostState(Protocol):
    """A responder whose slices leave something in the driver, beside files in the Pod's work directory."""

    async def release(self, uid: str) -> None:
        """Take away what the slices of a Pod that is gone left. Raises ReleaseError, to be tried again."""
        ...


class ReleaseError(Exception):
    """The driver does not give a slice back yet; its Pod stays charged."""


class SlicingResponder:
    """A manufacturer whose cards can be sliced: `whole` shows a card, `enforcer` limits what is done with it."""

    def __init__(self, manufacturer: Manufacturer, whole: Responder, enforcer: Enforcer, *, switches: Switches) -> None:
        self._whole = whole
        self._enforcer = enforcer
        self._enforced = manufacturer.key not in switches.unenforced

    async def respond(self, grant: Grant) -> Response:
        if grant.family is not Family.SLICED:
            return await self._whole.respond(grant)
        if not self._enforced:
            tell_of_no_enforcement(grant)
            return await self._whole.respond(grant)
        return await self._slice(grant)

    async def release(self, uid: str) -> None:
        if isinstance(self._enforcer, HoldsHostState):
            await self._enforcer.release(uid)

    async def lacks(self, model: DetectedModel, card: DetectedCard) -> Lack | None:
        """What a slice on the card would be refused for."""
        return await self._enforcer.lacks(model, card)

    async def _slice(self, grant: Grant) -> Response:
        card, budget = the_card(grant), budget_of(grant)
        lack = await self._enforcer.lacks(grant.model, card)
        if lack is not None:
            raise unenforceable(grant, lack)
        shown = await self._whole.respond(grant)
        try:
            return merged(shown, await self._enforcer.enforce(grant, card, budget))
        except OSError as error:
            raise ResponseRefused(f"the slice on {card.id} cannot be made: {error}") from error


def unenforceable(grant: Grant, lack: Lack) -> ResponseRefused:
    """The refusal of a slice that this host cannot hold to its budget."""
    past = way_past(grant.model.manufacturer)
    return ResponseRefused(f"the slice on {grant.cards[0].id} cannot be enforced: {lack.what}; {lack.remedy}, {past}")


def way_past(manufacturer: str) -> str:
    """What an operator may do who would rather have slices that nobody holds to their budget than none."""
    return f"or run slices without enforcement with {isolation_switch(manufacturer)}=off"


def tell_of_no_enforcement(grant: Grant) -> None:
    log.warning(
        "slice runs without enforcement",
        pod=str(grant.pod),
        uid=grant.pod.uid,
        container=grant.container["name"],
        card=grant.cards[0].id,
        switch=isolation_switch(grant.model.manufacturer),
    )


def the_card(grant: Grant) -> DetectedCard:
    """The one card of a slice, as the detector saw it. None of these vendors' enforcers limits two at once."""
    if len(grant.cards) != 1:
        raise ResponseRefused(f"a slice lies on one card, and {len(grant.cards)} were given")
    return detected(grant)[0]


def budget_of(grant: Grant) -> Budget:
    """The slice's budget, at most the card itself."""
    demand = grant.demand
    if demand is None or demand.memory_mib is None:
        raise ResponseRefused(f"the memory budget of container {grant.container['name']} is not known")
    return Budget(demand.cores_percentage or 100, min(demand.memory_mib, grant.cards[0].memory_mib))


def merged(shown: Response, limits: Response) -> Response:
    """The card shown, and its limits: where both set a variable the limit wins."""
    return replace(
        shown,
        envs={**shown.envs, **limits.envs},
        mounts=(*shown.mounts, *limits.mounts),
        devices=(*shown.devices, *(node for node in limits.devices if node not in shown.devices)),
    )


def unless_set(grant: Grant, gentle: Mapping[str, str]) -> dict[str, str]:
    """Variables that give way to those which the container's own `env` sets."""
    return {name: value for name, value in gentle.items() if not grant.sets(name)}
