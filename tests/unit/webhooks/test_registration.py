import pytest

from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import JOBS, PODS
from gpustack_ctl.webhooks.registration import Address, configuration
from gpustack_ctl.webhooks.review import Allowed
from gpustack_ctl.webhooks.run import WebhookConfig
from gpustack_ctl.webhooks.webhook import Webhook


def webhook(resource: object = PODS, *, mutates: bool = True, conditions: dict[str, str] | None = None) -> Webhook:
    return Webhook(
        name="test.worker.gpustack.ai",
        path="/test",
        resource=resource,
        operations=("CREATE",),
        mutates=mutates,
        decide=lambda _question: Allowed(),
        conditions=conditions or {},
    )


def entry(one: Webhook, *, address: Address | None = None, trusted: bytes | None = b"PEM") -> Obj:
    whole = configuration([one], mutating=one.mutates, address=address or Address(url="https://h:1"), trusted=trusted)
    (only,) = whole["webhooks"]
    return only


def test_each_configuration_holds_its_own_sort():
    both = [webhook(), webhook(mutates=False)]
    for mutating, name in ((True, "gpustack-worker-mutation"), (False, "gpustack-worker-validation")):
        whole = configuration(both, mutating=mutating, address=Address(url="https://h:1"), trusted=None)
        assert whole["metadata"]["name"] == name
        assert len(whole["webhooks"]) == 1


def test_our_mutation_sorts_before_kueues():
    ours = configuration([], mutating=True, address=Address(), trusted=None)["metadata"]["name"]
    assert ours < "kueue-mutating-webhook-configuration"


def test_only_what_names_a_queue_is_asked_about_and_nothing_of_it_gets_past_a_dead_webhook():
    asked = entry(webhook())
    assert asked["objectSelector"] == {"matchExpressions": [{"key": "kueue.x-k8s.io/queue-name", "operator": "Exists"}]}
    assert asked["failurePolicy"] == "Fail"
    assert asked["reinvocationPolicy"] == "Never"
    assert "reinvocationPolicy" not in entry(webhook(mutates=False))


def test_a_resource_of_a_group_is_asked_about_in_its_group():
    (rule,) = entry(webhook(JOBS))["rules"]
    assert (rule["apiGroups"], rule["apiVersions"], rule["resources"]) == (["batch"], ["v1"], ["jobs"])


def test_conditions_are_named():
    assert entry(webhook(conditions={"living": "true"}))["matchConditions"] == [
        {"name": "living", "expression": "true"}
    ]
    assert "matchConditions" not in entry(webhook())


def test_a_url_and_a_service_are_two_ways_to_one_path():
    assert entry(webhook(), address=Address(url="https://10.0.0.1:9443/"))["clientConfig"] == {
        "url": "https://10.0.0.1:9443/test",
        "caBundle": "UEVN",
    }
    service = Address(service="gpustack-webhook", namespace="gpustack-system")
    assert entry(webhook(), address=service, trusted=None)["clientConfig"] == {
        "service": {"name": "gpustack-webhook", "namespace": "gpustack-system", "path": "/test", "port": 443}
    }


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (WebhookConfig(url="https://192.168.1.7:9443"), {"192.168.1.7"}),
        (WebhookConfig(url="https://[::1]:9443"), {"::1"}),
        (WebhookConfig(), {"gpustack-webhook.gpustack-system.svc"}),
    ],
)
def test_the_certificate_carries_the_name_by_which_we_are_reached(config: WebhookConfig, names: set[str]):
    assert config.names == names


@pytest.mark.parametrize(
    ("config", "host"),
    [
        (WebhookConfig(), "0.0.0.0"),
        (WebhookConfig(url="https://192.168.1.7:9443"), "0.0.0.0"),
        (WebhookConfig(url="https://127.0.0.1:9443"), "127.0.0.1"),
        (WebhookConfig(url="https://127.0.0.1:9443", host="10.0.0.1"), "10.0.0.1"),
    ],
)
def test_what_is_reached_on_this_machine_is_not_offered_to_others(config: WebhookConfig, host: str):
    assert config.listen == host


@pytest.mark.parametrize("url", ["http://h:1", "h:9443", "https://", ""])
def test_a_url_that_the_api_server_would_not_call_is_refused(url: str):
    with pytest.raises(ValueError, match="the API server calls no other"):
        WebhookConfig(url=url)
