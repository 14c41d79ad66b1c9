"""An informer's copy stays true to the real API server over a line that is anything but good."""

import random
import time
from collections.abc import Callable
from contextlib import suppress

import anyio
import pytest
from structlog.testing import capture_logs

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import ApiError, Unreachable
from gpustack_ctl.kube.informer import Informer, Informers
from gpustack_ctl.kube.objects import Obj, key_of, labels_of, name_of, version_of
from gpustack_ctl.kube.resources import PODS, SECRETS, Resource
from tests.integration.kube.plane import Plane
from tests.integration.kube.proxy import Proxy

CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)


def secret(namespace: str, name: str, **labels: str) -> Obj:
    return {"metadata": {"namespace": namespace, "name": name, "labels": labels}}


class Tale:
    """Every change that an informer told of, checked for order as it comes: each begins where the last one ended."""

    def __init__(self, informer: Informer) -> None:
        self.changes: list[tuple[str, str]] = []
        self.mistakes: list[str] = []
        self._last: dict[str, int | None] = {}
        informer.subscribe(self._hear)

    def _hear(self, old: Obj | None, new: Obj | None) -> None:
        key = key_of(new or old or {})
        before, after = old and version_of(old), new and version_of(new)
        if self._last.get(key) != before:
            self.mistakes.append(f"{key}: told {before} -> {after} after {self._last.get(key)}")
        self._last[key] = after
        kind = "gone" if new is None else "new" if old is None else "changed"
        self.changes.append((kind, name_of(new or old or {})))


async def until(true: Callable[[], bool], *, seconds: float = 20) -> None:
    with anyio.fail_after(seconds):
        while not true():  # noqa: ASYNC110 — it waits for another program
            await anyio.sleep(0.02)


async def settled(informer: Informer, kube: Kube, namespace: str) -> None:
    """Until the copy is what the server has."""
    present = {key_of(obj): version_of(obj) for obj in await kube.list(informer.resource, namespace)}
    await until(lambda: {key_of(obj): version_of(obj) for obj in informer.list()} == present)


async def busy(kube: Kube, namespace: str, *, rounds: int = 20, prefix: str = "b") -> list[tuple[str, str]]:
    """A little of everything: objects made, changed, deleted and made again. Answers with what there was to tell."""
    happened: list[tuple[str, str]] = []
    for at in range(rounds):
        name = f"{prefix}{at % 4}"
        if at >= 4:
            await kube.delete(SECRETS, name, namespace)
            happened.append(("gone", name))
        await kube.create(SECRETS, secret(namespace, name))
        await kube.patch(SECRETS, name, {"metadata": {"labels": {"round": str(at)}}}, namespace=namespace)
        happened += [("new", name), ("changed", name)]
    return happened


# A good line


async def test_what_happens_is_told_in_order_and_found_by_index(kube: Kube, namespace: str) -> None:
    await kube.create(SECRETS, secret(namespace, "before", team="x"))
    informers = Informers(kube)
    secrets = informers.of(SECRETS, namespace=namespace)
    secrets.add_index("team", lambda obj: filter(None, [labels_of(obj).get("team")]))
    tale = Tale(secrets)
    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        await informers.wait_synced()
        await kube.create(SECRETS, secret(namespace, "after", team="x"))
        await kube.patch(SECRETS, "before", {"metadata": {"labels": {"team": "y"}}}, namespace=namespace)
        await kube.delete(SECRETS, "after", namespace)
        await settled(secrets, kube, namespace)
        tasks.cancel_scope.cancel()
    assert tale.changes == [("new", "before"), ("new", "after"), ("changed", "before"), ("gone", "after")]
    assert tale.mistakes == []
    assert [name_of(obj) for obj in secrets.by_index("team", "y")] == ["before"]
    assert secrets.by_index("team", "x") == []


async def test_everybody_shares_one_watch_and_one_copy(far: Kube, proxy: Proxy, namespace: str) -> None:
    informers = Informers(far)
    first = informers.of(SECRETS, namespace=namespace)
    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        assert informers.of(SECRETS, namespace=namespace) is first
        other = informers.of(SECRETS, namespace=namespace, label_selector="x=1")
        await informers.wait_synced()
        assert informers.of(SECRETS, namespace=namespace) is first
        await until(lambda: len(proxy.watches()) == 2)
        await anyio.sleep(0.3)
        tasks.cancel_scope.cancel()
    assert other is not first
    assert (len(proxy.lists()), len(proxy.watches())) == (2, 2)


async def test_two_ideas_of_what_to_keep_of_one_watch_are_a_mistake(kube: Kube) -> None:
    informers = Informers(kube)
    informers.of(PODS)
    with pytest.raises(ValueError, match="pods"):
        informers.of(PODS, keep=lambda obj: obj)


async def test_an_informer_asked_for_while_others_run_runs_too(kube: Kube, namespace: str) -> None:
    informers = Informers(kube)
    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        late = informers.of(SECRETS, namespace=namespace)
        assert not informers.synced
        await late.wait_synced()
        assert informers.synced
        tasks.cancel_scope.cancel()


async def test_an_object_that_leaves_the_selection_is_gone(kube: Kube, namespace: str) -> None:
    await kube.create(SECRETS, secret(namespace, "a", team="x"))
    informers = Informers(kube)
    secrets = informers.of(SECRETS, namespace=namespace, label_selector="team=x")
    tale = Tale(secrets)
    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        await informers.wait_synced()
        left = await kube.patch(SECRETS, "a", {"metadata": {"labels": {"team": "y"}}}, namespace=namespace)
        secrets.observe(left)
        await until(lambda: len(secrets) == 0)
        await kube.patch(SECRETS, "a", {"metadata": {"labels": {"team": "x"}}}, namespace=namespace)
        await until(lambda: len(secrets) == 1)
        tasks.cancel_scope.cancel()
    assert tale.mistakes == []


async def test_our_own_writes_are_read_back_at_once_and_the_watch_repeats_none(kube: Kube, namespace: str) -> None:
    informers = Informers(kube)
    secrets = informers.of(SECRETS)
    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        await informers.wait_synced()
        tale = Tale(secrets)
        tale.changes.clear()
        key = f"{namespace}/mine"
        for at in range(20):
            if at == 0:
                written = await kube.create(SECRETS, secret(namespace, "mine"))
            else:
                labels = {"metadata": {"labels": {"at": str(at)}}}
                written = await kube.patch(SECRETS, "mine", labels, namespace=namespace)
            secrets.observe(written)
            held = secrets.get(key)
            assert held is not None
            assert version_of(held) == version_of(written)
        await kube.delete(SECRETS, "mine", namespace)
        await until(lambda: secrets.get(key) is None)
        secrets.observe(written)
        assert secrets.get(key) is None
        tasks.cancel_scope.cancel()
    assert len([change for change in tale.changes if change[1] == "mine"]) == 21
    assert tale.mistakes == []


# A bad line


async def test_a_line_that_brings_single_bytes_loses_nothing(
    far: Kube, proxy: Proxy, kube: Kube, namespace: str
) -> None:
    proxy.trickle = True
    informers = Informers(far)
    secrets = informers.of(SECRETS, namespace=namespace)
    tale = Tale(secrets)
    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        await informers.wait_synced()
        happened = await busy(kube, namespace, rounds=6)
        await settled(secrets, kube, namespace)
        tasks.cancel_scope.cancel()
    assert tale.changes == happened


@pytest.mark.parametrize("politely", [True, False], ids=["ended", "reset"])
@pytest.mark.parametrize("after", [1, 300, 700, 1500, 2222])
async def test_a_watch_cut_in_the_middle_of_a_line_resumes_and_loses_nothing(
    far: Kube, proxy: Proxy, kube: Kube, namespace: str, after: int, politely: bool
) -> None:
    informers = Informers(far)
    secrets = informers.of(SECRETS, namespace=namespace)
    tale = Tale(secrets)
    proxy.politely = politely
    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        await until(lambda: len(proxy.watches()) == 1)
        proxy.cut_watch_after = after
        happened = await busy(kube, namespace, rounds=8)
        await settled(secrets, kube, namespace)
        tasks.cancel_scope.cancel()
    assert tale.changes == happened
    assert len(proxy.watches()) >= 2
    assert len(proxy.lists()) == 1


async def test_a_line_cut_every_few_hundred_bytes_still_tells_the_whole_tale(
    far: Kube, proxy: Proxy, kube: Kube, namespace: str
) -> None:
    informers = Informers(far)
    secrets = informers.of(SECRETS, namespace=namespace)
    tale = Tale(secrets)
    over = anyio.Event()

    async def keep_cutting() -> None:
        while not over.is_set():
            if proxy.cut_watch_after is None:
                proxy.cut_watch_after = 900
            await anyio.sleep(0.01)
        proxy.cut_watch_after = None

    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        await informers.wait_synced()
        async with anyio.create_task_group() as cutting:
            cutting.start_soon(keep_cutting)
            happened = await busy(kube, namespace, rounds=10)
            over.set()
        proxy.cut()
        await settled(secrets, kube, namespace)
        tasks.cancel_scope.cancel()
    assert tale.changes == happened
    assert len(proxy.lists()) == 1


async def test_a_line_that_goes_dead_without_a_word_is_noticed_and_replaced(
    far: Kube, proxy: Proxy, kube: Kube, namespace: str
) -> None:
    informers = Informers(far, silence=1.5)
    secrets = informers.of(SECRETS, namespace=namespace)
    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        await until(lambda: len(proxy.watches()) == 1)
        await kube.create(SECRETS, secret(namespace, "seen"))
        await until(lambda: len(secrets) == 1)
        proxy.stalled = True
        await kube.create(SECRETS, secret(namespace, "swallowed"))
        await anyio.sleep(0.2)
        proxy.stalled = False
        assert len(secrets) == 1
        await until(lambda: len(secrets) == 2, seconds=4)
        tasks.cancel_scope.cancel()
    assert len(proxy.lists()) == 1


async def test_objects_as_large_as_they_may_be_come_through(far: Kube, kube: Kube, namespace: str) -> None:
    informers = Informers(far)
    secrets = informers.of(SECRETS, namespace=namespace)
    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        await informers.wait_synced()
        # Base64 makes three bytes four: a line of 1.4 MiB, close to the most that etcd takes.
        text = "x" * (1024 * 1024 - 16)
        for name in "ab":
            large = secret(namespace, name) | {"type": "Opaque", "stringData": {"text": text}}
            await kube.create(SECRETS, large)
        await kube.create(SECRETS, secret(namespace, "small"))
        await until(lambda: len(secrets) == 3)
        await settled(secrets, kube, namespace)
        tasks.cancel_scope.cancel()
    held = secrets.get(f"{namespace}/a")
    assert held is not None
    assert len(held["data"]["text"]) > 1_390_000


# A server that forgets, dies and refuses


async def test_after_the_server_forgot_a_new_list_tells_exactly_the_differences(
    far: Kube, proxy: Proxy, kube: Kube, plane: Plane, namespace: str
) -> None:
    for name in ("stays", "changes", "goes", "is-replaced"):
        await kube.create(SECRETS, secret(namespace, name))
    informers = Informers(far)
    secrets = informers.of(SECRETS, namespace=namespace)
    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        await until(lambda: len(proxy.watches()) == 1)
        tale = Tale(secrets)
        tale.changes.clear()
        line_is_good = anyio.Event()

        async def hold(_: str) -> None:
            await line_is_good.wait()

        proxy.before = hold
        proxy.cut()
        await kube.patch(SECRETS, "changes", {"metadata": {"labels": {"x": "1"}}}, namespace=namespace)
        await kube.delete(SECRETS, "goes", namespace)
        await kube.delete(SECRETS, "is-replaced", namespace)
        await kube.create(SECRETS, secret(namespace, "is-replaced"))
        await kube.create(SECRETS, secret(namespace, "comes"))
        await plane.forget_the_past()
        proxy.before = None
        line_is_good.set()
        proxy.cut()
        await settled(secrets, kube, namespace)
        assert sorted(tale.changes) == [
            ("changed", "changes"),
            ("changed", "is-replaced"),
            ("gone", "goes"),
            ("new", "comes"),
        ]
        assert tale.mistakes == []
        assert len(proxy.lists()) == 2
        tale.changes.clear()
        happened = await busy(kube, namespace, rounds=3)
        await settled(secrets, kube, namespace)
        tasks.cancel_scope.cancel()
    assert tale.changes == happened


async def test_a_killed_server_comes_back_and_nothing_is_lost_and_each_turn_is_told_once(
    kube: Kube, plane: Plane, namespace: str
) -> None:
    informers = Informers(kube)
    secrets = informers.of(SECRETS, namespace=namespace)
    others = [informers.of(resource) for resource in (PODS, CLUSTER_ROLES)]
    tale = Tale(secrets)
    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            await tasks.start(informers.run)
            await informers.wait_synced()
            await busy(kube, namespace, rounds=3)
            await plane.kill()
            await anyio.sleep(4)
            await plane.start()
            started = time.monotonic()
            await busy(kube, namespace, rounds=3, prefix="later")
            await settled(secrets, kube, namespace)
            caught_up = time.monotonic() - started
            await until(lambda: any("again" in log["event"] for log in logs))
            tasks.cancel_scope.cancel()
    assert tale.mistakes == []
    assert all(informer.synced for informer in others)
    assert caught_up < 12
    told = [log["event"] for log in logs if log["log_level"] != "debug"]
    assert told == ["the API server cannot be reached; retrying", "the API server is reached again"]


async def test_through_all_of_it_at_once_the_tale_holds(
    far: Kube, proxy: Proxy, kube: Kube, plane: Plane, namespace: str
) -> None:
    seed = time.time_ns()
    chance = random.Random(seed)
    informers = Informers(far, silence=2)
    secrets = informers.of(SECRETS, namespace=namespace)
    tale = Tale(secrets)
    over = anyio.Event()

    async def write() -> None:
        while not over.is_set():
            name = f"b{chance.randrange(4)}"
            with suppress(Unreachable, ApiError):
                await kube.delete(SECRETS, name, namespace)
                await kube.create(SECRETS, secret(namespace, name))
                await kube.patch(SECRETS, name, {"metadata": {"labels": {"x": "1"}}}, namespace=namespace)
            await anyio.sleep(0.01)

    async def spoil() -> None:
        for turn in range(12):
            if turn in (3, 8):
                await plane.forget_the_past()
            proxy.trickle = chance.random() < 0.3
            proxy.politely = chance.random() < 0.5
            proxy.cut_watch_after = chance.randrange(1, 4000)
            if chance.random() < 0.4:
                proxy.cut()
            await anyio.sleep(chance.uniform(0.05, 0.5))
        over.set()
        proxy.trickle, proxy.cut_watch_after = False, None

    async with anyio.create_task_group() as tasks:
        await tasks.start(informers.run)
        await informers.wait_synced()
        async with anyio.create_task_group() as both:
            both.start_soon(write)
            both.start_soon(spoil)
        await settled(secrets, kube, namespace)
        tasks.cancel_scope.cancel()
    assert tale.mistakes == [], f"seed {seed}"
    assert len(proxy.watches()) > 5


async def test_a_forbidden_watch_is_told_once_and_begins_when_it_may(kube: Kube, plane: Plane, namespace: str) -> None:
    await kube.create(SECRETS, secret(namespace, "a"))
    with capture_logs() as logs:
        async with Kube.connect(kubeconfig=plane.kubeconfig(user="reader", groups=())) as reader:
            informers = Informers(reader)
            secrets = informers.of(SECRETS, namespace=namespace)
            async with anyio.create_task_group() as tasks:
                await tasks.start(informers.run)
                await anyio.sleep(1.5)
                assert not secrets.synced
                await allow(kube, "reader")
                await until(lambda: secrets.synced)
                tasks.cancel_scope.cancel()
    told = [(log["event"], log.get("error", "")) for log in logs if log["log_level"] != "debug"]
    assert [event for event, _ in told] == [
        "the API server refuses a watch; retrying",
        "the API server serves a watch again",
    ]
    assert 'User "reader" cannot list resource "secrets"' in told[0][1]
    assert len(secrets) == 1


async def allow(kube: Kube, user: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}]
    await kube.apply(CLUSTER_ROLES, {"metadata": {"name": user}, "rules": rules}, manager="test")
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    await kube.apply(CLUSTER_ROLE_BINDINGS, binding, manager="test")
