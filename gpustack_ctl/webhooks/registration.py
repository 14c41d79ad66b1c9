"""Telling the API server about our webhooks, and keeping it told.

Two configurations, one that mutates and one that validates, are applied whole whenever they differ from what we
want: at start, when somebody edits or deletes them, and when the authority behind our certificate changes. The
desired state is a pure function of the webhooks, of how the API server reaches us and of whom it must trust.
"""

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import anyio
import structlog

from gpustack_ctl.kube.apply import subset_equal
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import KubeError
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from gpustack_ctl.webhooks.tls import Tls
from gpustack_ctl.webhooks.webhook import Webhook

log = structlog.get_logger()

# The API server calls mutating webhooks in the order of their configurations' names. Ours sorts before
# kueue-mutating-webhook-configuration: the units that we fold must be in the Pod when Kueue hashes its resources.
MUTATION = "gpustack-worker-mutation"
VALIDATION = "gpustack-worker-validation"

_MANAGER = "gpustack-ctl-webhooks"
_QUEUE_NAME = "kueue.x-k8s.io/queue-name"
# Changes come in twos, ours included: one look after the last is enough for both.
_SETTLE_SECONDS = 0.1
_RETRY_SECONDS = (1.0, 2.0, 5.0, 15.0, 30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """How the API server reaches us: by a Service of the cluster, or by a URL from outside it."""

    url: str | None = None
    service: str = ""
    namespace: str = ""
    port: int = 443

    def client_config(self, path: str, trusted: bytes | None) -> Obj:
        if self.url is not None:
            reached: Obj = {"url": self.url.rstrip("/") + path}
        else:
            service = {"name": self.service, "namespace": self.namespace, "path": path, "port": self.port}
            reached = {"service": service}
        if trusted is not None:
            reached["caBundle"] = base64.b64encode(trusted).decode()
        return reached


def configuration(webhooks: Iterable[Webhook], *, mutating: bool, address: Address, trusted: bytes | None) -> Obj:
    """The MutatingWebhookConfiguration, or the validating one, of those `webhooks` that are of that sort."""
    return {
        "metadata": {"name": MUTATION if mutating else VALIDATION},
        "webhooks": [_entry(webhook, address, trusted) for webhook in webhooks if webhook.mutates is mutating],
    }


def _entry(webhook: Webhook, address: Address, trusted: bytes | None) -> Obj:
    resource = webhook.resource
    entry: Obj = {
        "name": webhook.name,
        "clientConfig": address.client_config(webhook.path, trusted),
        "admissionReviewVersions": ["v1"],
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": [resource.plural],
                "operations": list(webhook.operations),
                "scope": "Namespaced",
            }
        ],
        # Only what asks for a queue. Everything else, our own Pods included, starts without us, so that a cluster
        # whose webhook is down can still bring it up again.
        "objectSelector": {"matchExpressions": [{"key": _QUEUE_NAME, "operator": "Exists"}]},
        "namespaceSelector": {},
        # A Pod that got past us would be admitted without credits: better none than one that nobody accounts for.
        "failurePolicy": "Fail",
        # An object sent in another version of its API is converted and still asked about.
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        # A verdict takes about a millisecond. Five seconds bridge a restart's dropped connection, and a client that
        # meets a dead webhook hears of it soon.
        "timeoutSeconds": 5,
    }
    if webhook.conditions:
        entry["matchConditions"] = [
            {"name": name, "expression": expression} for name, expression in webhook.conditions.items()
        ]
    if webhook.mutates:
        # Kueue changes every Pod after us, and a second call would fold behind the back of the hash it has just
        # taken. What another webhook changed after our fold is found by the validating call, which comes last.
        entry["reinvocationPolicy"] = "Never"
    return entry


class Registration:
    """Keeps both configurations as wanted, until cancelled.

    The leader's work: during an upgrade, replicas of two versions would otherwise undo each other's registration.
    """

    def __init__(
        self, *, kube: Kube, informers: Informers, webhooks: Sequence[Webhook], address: Address, tls: Tls
    ) -> None:
        self._kube = kube
        self._webhooks = webhooks
        self._address = address
        self._tls = tls
        self._live = {
            resource: informers.of(resource, field_selector=f"metadata.name={name}")
            for resource, name in ((MUTATING_WEBHOOKS, MUTATION), (VALIDATING_WEBHOOKS, VALIDATION))
        }
        self._changed = anyio.Event()
        tls.on_change(self._wake)

    async def run(self) -> None:
        unsubscribes: list[Callable[[], None]] = [
            informer.subscribe(lambda _old, _new: self._wake()) for informer in self._live.values()
        ]
        try:
            for informer in self._live.values():
                await informer.wait_synced()
            failures = 0
            while True:
                self._changed = anyio.Event()
                failures = 0 if await self._apply() else failures + 1
                # Nothing that we wait for announces the end of a failure, so a failure is tried again by the clock.
                retry = _RETRY_SECONDS[min(failures, len(_RETRY_SECONDS)) - 1] if failures else None
                with anyio.move_on_after(retry):
                    await self._changed.wait()
                await anyio.sleep(_SETTLE_SECONDS)
        finally:
            for unsubscribe in unsubscribes:
                unsubscribe()

    def _wake(self) -> None:
        self._changed.set()

    async def _apply(self) -> bool:
        if not self._tls.valid:
            # An API server that is told to ask us before we can answer refuses every queued Pod.
            return True
        try:
            for resource in self._live:
                await self._apply_one(resource)
        except KubeError as cause:
            log.warning("cannot register the webhooks", cause=str(cause))
            return False
        return True

    async def _apply_one(self, resource: Resource) -> None:
        mutating = resource is MUTATING_WEBHOOKS
        wanted = configuration(self._webhooks, mutating=mutating, address=self._address, trusted=self._tls.trusted)
        live = self._live[resource].get(wanted["metadata"]["name"])
        if live is not None and subset_equal(wanted, live):
            return
        log.info("registering webhooks", configuration=wanted["metadata"]["name"], new=live is None)
        self._live[resource].observe(await self._kube.apply(resource, wanted, manager=_MANAGER))
