"""Whose turn it is: the container that the kubelet's call is about.

The device plugin API passes device ids and no Pod. The kubelet admits one Pod after another, one container at a time,
so the container is the one that is admitted, asks for this resource in this quantity, and has none of it yet; the
kubelet's pod-resources list says so. Where that list cannot be had, the oldest Pending Pod that fits is the best guess,
and the pairs already promised something are left out of it, or a burst of equal Pods would all be taken for the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import anyio
import structlog

from gpustack_ctl.accel.units import QuantityError, quantity
from gpustack_ctl.agent import metrics
from gpustack_ctl.agent.pod_resources import AdmittedPod, PodResources, PodResourcesUnavailable
from gpustack_ctl.agent.reservations import PromiseKey, Reservations
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import KubeError, NotFound
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, deleting, name_of, namespace_of, uid_of
from gpustack_ctl.kube.resources import PODS

log = structlog.get_logger()

#: How long a Pod that the kubelet names and the watch does not show yet may hold an allocation up.
_FRESH_READ_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Claim:
    """One container of one Pod."""

    pod: Obj
    container: str

    @property
    def uid(self) -> str:
        return uid_of(self.pod)

    @property
    def spec(self) -> Obj:
        """The container's own part of the Pod's spec."""
        return next(container for container in _containers(self.pod) if container["name"] == self.container)

    def __str__(self) -> str:
        return f"{namespace_of(self.pod)}/{name_of(self.pod)} container {self.container}"


Serves = Callable[[Claim], bool]


class Identifier:
    """Finds the container behind a call. `pods` holds the Pods bound to this node."""

    def __init__(
        self, *, pods: Informer, kube: Kube, reservations: Reservations, pod_resources: PodResources | None
    ) -> None:
        self._pods = pods
        self._kube = kube
        self._reservations = reservations
        self._pod_resources = pod_resources

    async def identify(self, resource: str, *, count: int, serves: Serves) -> Claim | None:
        """The container that asks for `count` of `resource` now; None when no Pod of this node could.

        `serves` says whether the devices at hand could serve a container; only the guess needs it.
        """
        if self._pod_resources is not None:
            try:
                admitted = await self._pod_resources.admitted()
            except PodResourcesUnavailable as error:
                log.warning("pod-resources not available, guessing from the Pending Pods", error=str(error))
            else:
                claim = await self._from_kubelet(admitted, resource, count)
                if claim is not None:
                    return claim
        metrics.guesses.labels(resource).inc()
        return self._from_specs(resource, count, serves)

    async def _from_kubelet(self, admitted: Sequence[AdmittedPod], resource: str, count: int) -> Claim | None:
        known = {listed.key: self._pods.get(listed.key) for listed in admitted}
        claims = _without_devices(admitted, known, resource, count)
        found = self._first_unpromised(claims, resource)
        if found is not None:
            return found
        # Nobody the watch knows is waiting. The kubelet may be ahead of it, with a new Pod or a new one of an old name.
        stale = [listed for listed in admitted if (pod := known[listed.key]) is None or deleting(pod)]
        if stale:
            known |= await self._read_fresh(stale)
            claims = _without_devices(admitted, known, resource, count)
        return self._first_unpromised(claims, resource) or self._retried(claims, resource)

    def _from_specs(self, resource: str, count: int, serves: Serves) -> Claim | None:
        pending = sorted((pod for pod in self._pods.list() if _pending(pod)), key=_pod_age)
        claims = [claim for pod in pending for claim in _asking(pod, resource, count)]
        fitting = [claim for claim in claims if serves(claim)]
        return (
            self._first_unpromised(fitting, resource)
            or self._retried(fitting, resource)
            or next(iter(claims), None)
            or next((claim for pod in pending for claim in _asking(pod, resource, None)), None)
        )

    def _first_unpromised(self, claims: Iterable[Claim], resource: str) -> Claim | None:
        return next((claim for claim in claims if self._key(claim, resource) not in self._reservations), None)

    def _retried(self, claims: Iterable[Claim], resource: str) -> Claim | None:
        """A container that was promised its devices before the kubelet, restarted, lost sight of them.

        An ordinary init container is never seen with its devices, so it stands behind everybody else.
        """
        ordered = sorted(claims, key=lambda claim: _ordinary_init(claim))
        return next((claim for claim in ordered if self._key(claim, resource) in self._reservations), None)

    def _key(self, claim: Claim, resource: str) -> PromiseKey:
        return PromiseKey(claim.uid, claim.container, resource)

    async def _read_fresh(self, listed: Iterable[AdmittedPod]) -> dict[str, Obj | None]:
        """The Pods of those names as the server has them now, as far as it answers in time."""
        fresh: dict[str, Obj | None] = {}
        with anyio.move_on_after(_FRESH_READ_SECONDS):
            for pod in listed:
                try:
                    fresh[pod.key] = await self._kube.get(PODS, pod.name, pod.namespace)
                except NotFound:
                    continue
                except KubeError as error:
                    log.warning("Pod named by the kubelet cannot be read", pod=pod.key, error=str(error))
                    break
        return fresh


def _without_devices(
    admitted: Iterable[AdmittedPod], known: Mapping[str, Obj | None], resource: str, count: int
) -> list[Claim]:
    """The containers on the kubelet's list that ask for the resource and have none of it, oldest Pod first."""
    claims: list[Claim] = []
    for listed in admitted:
        pod = known[listed.key]
        if pod is None:
            continue
        having = {name for name, devices in listed.containers.items() if devices.get(resource)}
        claims += [claim for claim in _asking(pod, resource, count) if claim.container not in having]
    return sorted(claims, key=_age)


def _asking(pod: Obj, resource: str, count: int | None) -> Iterator[Claim]:
    """The containers that ask for the resource, in the order in which the kubelet allocates for them."""
    for container in _containers(pod):
        asked = _asked(container, resource)
        if asked and count in (None, asked):
            yield Claim(pod, container["name"])


def _containers(pod: Obj) -> Iterator[Obj]:
    spec = pod.get("spec") or {}
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _asked(container: Obj, resource: str) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    try:
        return quantity(limits.get(resource, 0))
    except QuantityError:
        return 0


def _ordinary_init(claim: Claim) -> bool:
    inits = (claim.pod.get("spec") or {}).get("initContainers") or ()
    return any(init["name"] == claim.container and init.get("restartPolicy") != "Always" for init in inits)


def _pending(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase", "Pending") == "Pending" and not deleting(pod)


def _age(claim: Claim) -> tuple[str, str, str]:
    return _pod_age(claim.pod)


def _pod_age(pod: Obj) -> tuple[str, str, str]:
    return pod["metadata"].get("creationTimestamp") or "", namespace_of(pod), name_of(pod)
