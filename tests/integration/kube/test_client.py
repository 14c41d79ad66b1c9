"""The verbs, against a real API server."""

import socket
from functools import partial
from pathlib import Path
from time import monotonic

import anyio
import pytest
import yaml

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import AlreadyExists, Conflict, Forbidden, Gone, Invalid, NotFound, Unreachable
from gpustack_ctl.kube.objects import Obj, deleting, name_of, version_of
from gpustack_ctl.kube.resources import LEASES, PODS, SECRETS, Resource
from tests.integration.kube.plane import Plane
from tests.integration.kube.proxy import Proxy

DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


def secret(namespace: str, name: str, **text: str) -> Obj:
    return {"metadata": {"namespace": namespace, "name": name}, "stringData": text}


async def test_an_object_is_created_read_changed_and_deleted(kube: Kube, namespace: str) -> None:
    made = await kube.create(SECRETS, secret(namespace, "a", x="1"))
    assert await kube.get(SECRETS, "a", namespace) == made
    changed = await kube.patch(SECRETS, "a", {"metadata": {"labels": {"l": "1"}}}, namespace=namespace)
    assert version_of(changed) > version_of(made)
    assert [name_of(obj) for obj in await kube.list(SECRETS, namespace, label_selector="l=1")] == ["a"]
    await kube.delete(SECRETS, "a", namespace)
    with pytest.raises(NotFound, match='secrets "a" not found'):
        await kube.get(SECRETS, "a", namespace)


async def test_what_was_created_already_is_an_error_of_its_own(kube: Kube, namespace: str) -> None:
    await kube.create(SECRETS, secret(namespace, "a"))
    with pytest.raises(AlreadyExists):
        await kube.create(SECRETS, secret(namespace, "a"))


async def test_a_dry_run_leaves_nothing(kube: Kube, namespace: str) -> None:
    await kube.create(SECRETS, secret(namespace, "a"), dry_run=True)
    assert await kube.list(SECRETS, namespace) == []


async def test_replacing_what_changed_meanwhile_is_a_conflict(kube: Kube, namespace: str) -> None:
    read = await kube.create(SECRETS, secret(namespace, "a"))
    await kube.patch(SECRETS, "a", {"metadata": {"labels": {"l": "1"}}}, namespace=namespace)
    with pytest.raises(Conflict):
        await kube.replace(SECRETS, read)


async def test_the_three_kinds_of_patch(kube: Kube, namespace: str) -> None:
    await kube.create(SECRETS, secret(namespace, "a"))
    labels = {"metadata": {"labels": {"l": "1"}}}
    await kube.patch(SECRETS, "a", labels, namespace=namespace, kind="strategic")
    test_and_set = [
        {"op": "test", "path": "/metadata/labels/l", "value": "1"},
        {"op": "replace", "path": "/metadata/labels/l", "value": "2"},
    ]
    patched = await kube.patch(SECRETS, "a", test_and_set, namespace=namespace, kind="json")
    assert patched["metadata"]["labels"] == {"l": "2"}
    with pytest.raises(Invalid):
        await kube.patch(SECRETS, "a", test_and_set, namespace=namespace, kind="json")
    gone = await kube.patch(SECRETS, "a", {"metadata": {"labels": {"l": None}}}, namespace=namespace)
    assert "labels" not in gone["metadata"]


async def test_apply_makes_changes_and_takes_back_what_its_manager_leaves_out(kube: Kube, namespace: str) -> None:
    def labelled(**labels: str) -> Obj:
        return {"metadata": {"namespace": namespace, "name": "a", "labels": labels}}

    await kube.apply(SECRETS, labelled(x="1", y="1"), manager="one")
    await kube.apply(SECRETS, labelled(z="1"), manager="two")
    applied = await kube.apply(SECRETS, labelled(x="2"), manager="one")
    assert applied["metadata"]["labels"] == {"x": "2", "z": "1"}
    again = await kube.apply(SECRETS, labelled(x="2"), manager="one")
    assert version_of(again) == version_of(applied)
    with pytest.raises(Conflict, match="conflict"):
        await kube.apply(SECRETS, labelled(x="3"), manager="two", force=False)


async def test_deleting_what_is_not_there_is_done_already(kube: Kube, namespace: str) -> None:
    await kube.delete(SECRETS, "never", namespace)


async def test_a_namesake_of_what_was_to_be_deleted_is_spared(kube: Kube, namespace: str) -> None:
    first = await kube.create(SECRETS, secret(namespace, "a"))
    await kube.delete(SECRETS, "a", namespace)
    await kube.create(SECRETS, secret(namespace, "a"))
    with pytest.raises(Conflict):
        await kube.delete(SECRETS, "a", namespace, uid=first["metadata"]["uid"])


async def test_a_refusal_carries_the_servers_words(kube: Kube, namespace: str) -> None:
    with pytest.raises(Invalid, match=r"spec\.containers: Required value") as refusal:
        await kube.create(PODS, {"metadata": {"namespace": namespace, "name": "a"}, "spec": {}})
    assert refusal.value.details["causes"]


async def test_listed_objects_name_their_kind_like_all_others(kube: Kube, namespace: str) -> None:
    made = await kube.create(SECRETS, secret(namespace, "a"))
    assert await kube.list(SECRETS, namespace) == [made]


# Pages


async def test_a_list_longer_than_a_page_is_whole(kube: Kube, namespace: str) -> None:
    names = [f"s{at:02}" for at in range(25)]
    for name in names:
        await kube.create(SECRETS, secret(namespace, name))
    pages = [page async for page, _ in kube.pages(SECRETS, namespace, limit=10)]
    assert [len(page) for page in pages] == [10, 10, 5]
    assert [name_of(obj) for page in pages for obj in page] == names


async def test_pages_that_outlive_the_servers_memory_say_so(kube: Kube, plane: Plane, namespace: str) -> None:
    for at in range(4):
        await kube.create(SECRETS, secret(namespace, f"s{at}"))
    pages = kube.pages(SECRETS, namespace, limit=2)
    await anext(pages)
    await kube.create(SECRETS, secret(namespace, "later"))
    await plane.forget_the_past()
    with pytest.raises(Gone):
        await anext(pages)


async def test_a_list_begins_again_when_its_pages_are_forgotten(
    far: Kube, proxy: Proxy, plane: Plane, namespace: str
) -> None:
    for at in range(501):
        await far.create(LEASES, {"metadata": {"namespace": namespace, "name": f"l{at:03}"}})

    async def forget_once(path: str) -> None:
        if "continue=" in path:
            proxy.before = None
            await far.create(LEASES, {"metadata": {"namespace": namespace, "name": "later"}})
            await plane.forget_the_past()

    proxy.before = forget_once
    leases = await far.list(LEASES, namespace)
    assert len(leases) == 502
    assert len({name_of(lease) for lease in leases}) == 502


# Refused, and unreachable


def with_token(directory: Path, *, server: str, trusting: Path | None) -> str:
    """A kubeconfig of somebody whom the server does not know."""
    cluster = {"server": server} | ({"certificate-authority": str(trusting)} if trusting else {})
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "stranger"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "stranger", "user": {"token": "wrong"}}],
    }
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return str(path)


async def test_a_forbidden_request_names_who_asked_for_what(plane: Plane) -> None:
    async with Kube.connect(kubeconfig=plane.kubeconfig(user="nobody", groups=())) as nobody:
        with pytest.raises(Forbidden, match='User "nobody" cannot list resource "pods"'):
            await nobody.list(PODS)


async def test_credentials_that_are_not_accepted_name_the_user(plane: Plane, tmp_path: Path) -> None:
    kubeconfig = with_token(tmp_path, server=plane.run.server, trusting=plane.run.authority.certificate)
    async with Kube.connect(kubeconfig=kubeconfig) as kube:
        with pytest.raises(Forbidden, match=r"does not accept the credentials of stranger for GET /api/v1/pods"):
            await kube.list(PODS)


async def test_a_server_that_is_not_there_is_named_with_the_cause(plane: Plane) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        async with Kube.connect(kubeconfig=plane.kubeconfig(port=port)) as kube:
            with pytest.raises(Unreachable, match=f"https://127.0.0.1:{port} cannot be reached: .*refused"):
                await kube.get(PODS, "a", "default")


async def test_a_server_that_cannot_prove_itself_is_not_talked_to(plane: Plane, tmp_path: Path) -> None:
    kubeconfig = with_token(tmp_path, server=plane.run.server, trusting=None)
    async with Kube.connect(kubeconfig=kubeconfig) as kube:
        with pytest.raises(Unreachable, match="certificate is not trusted"):
            await kube.list(PODS)


async def test_a_read_whose_connection_broke_is_repeated_and_a_write_is_not(
    far: Kube, proxy: Proxy, namespace: str
) -> None:
    async def cut_once(path: str) -> None:
        proxy.before = None
        proxy.cut()

    await far.create(SECRETS, secret(namespace, "a"))
    proxy.before = cut_once
    assert name_of(await far.get(SECRETS, "a", namespace)) == "a"
    proxy.before = cut_once
    with pytest.raises(Unreachable):
        await far.create(SECRETS, secret(namespace, "b"))


async def test_a_request_that_is_never_answered_is_given_up(far: Kube, proxy: Proxy) -> None:
    await far.raw("/version")
    proxy.stalled = True
    started = monotonic()
    with pytest.raises(Unreachable, match="no answer in time"):
        await far.raw("/version", seconds=0.5)
    assert monotonic() - started < 1.5


async def test_a_server_that_asks_for_patience_is_given_it(kube: Kube, namespace: str) -> None:
    """An eviction is answered 429 for as long as the disruption budget forbids it."""
    await kube.create(PODS, pod(namespace, "a"))
    await kube.patch(PODS, "a", {"status": RUNNING}, namespace=namespace, subresource="status")
    await kube.create(DISRUPTION_BUDGETS, budget(namespace))
    await allow_disruptions(kube, namespace, 0)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": namespace, "name": "a"}}
    path = PODS.path("a", namespace, "eviction")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(kube._transport.request, "POST", path, body=eviction))
        await anyio.sleep(0.5)
        assert not deleting(await kube.get(PODS, "a", namespace))
        await allow_disruptions(kube, namespace, 1)
    assert await kube.list(PODS, namespace) == []


RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def pod(namespace: str, name: str) -> Obj:
    metadata = {"namespace": namespace, "name": name, "labels": {"app": "a"}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "none"}]}}


def budget(namespace: str) -> Obj:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    return {"metadata": {"namespace": namespace, "name": "budget"}, "spec": spec}


async def allow_disruptions(kube: Kube, namespace: str, count: int) -> None:
    """What the controller manager would write."""
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": count,
        "currentHealthy": 1,
        "desiredHealthy": 1 - count,
        "expectedPods": 1,
    }
    await kube.patch(DISRUPTION_BUDGETS, "budget", {"status": status}, namespace=namespace, subresource="status")
