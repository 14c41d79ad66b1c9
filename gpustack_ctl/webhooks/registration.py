"""Telling the API server about our webhooks, and keeping it told.

Two configurations, one that mutates and one that validates: a pure function of the webhooks, of how the API
server reaches us and of whom it must trust.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpustack_ctl.accel.labels import KUEUE_QUEUE_NAME
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from gpustack_ctl.webhooks.tls import Tls
from gpustack_ctl.webhooks.upkeep import Upkeep
from gpustack_ctl.webhooks.webhook import Webhook

# The API server calls mutating webhooks in the order of their configurations' names. Ours sorts before
# kueue-mutating-webhook-configuration: the units that we fold must be in the Pod when Kueue hashes its resources.
MUTATION = "gpustack-worker-mutation"
VALIDATION = "gpustack-worker-validation"

# Only what asks for a queue. Everything else, our own Pods included, starts without us, so that a cluster whose
# webhook is down can still bring it up again.
_QUEUED = {"matchExpressions": [{"key": KUEUE_QUEUE_NAME, "operator": "Exists"}]}

_NAMES = {MUTATING_WEBHOOKS: MUTATION, VALIDATING_WEBHOOKS: VALIDATION}


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
                "scope": "Namespaced" if resource.namespaced else "Cluster",
            }
        ],
        "objectSelector": _QUEUED if webhook.by_queue_label else {},
        "namespaceSelector": {},
        # A Pod that got past us would be admitted without credits: better none than one that nobody accounts for.
        "failurePolicy": "Fail" if webhook.essential else "Ignore",
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
    """Keeps both configurations as they should be, until cancelled."""

    def __init__(
        self, *, kube: Kube, informers: Informers, webhooks: Sequence[Webhook], address: Address, tls: Tls
    ) -> None:
        self._webhooks = webhooks
        self._address = address
        self._tls = tls
        self._upkeep = Upkeep(
            kube=kube, informers=informers, manager="gpustack-ctl-webhooks", names=_NAMES, wanted=self._wanted
        )
        tls.on_change(self._upkeep.wake)

    async def run(self) -> None:
        await self._upkeep.run()

    def _wanted(self, resource: Resource) -> Obj | None:
        # An API server that is told to ask us before we can answer refuses every queued Pod.
        if not self._tls.valid:
            return None
        mutating = resource is MUTATING_WEBHOOKS
        return configuration(self._webhooks, mutating=mutating, address=self._address, trusted=self._tls.trusted)
