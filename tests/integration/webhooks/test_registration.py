"""Certificates and registration, as two replicas and a meddler leave them."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import ApiError
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import MUTATING_WEBHOOKS, PODS, SECRETS
from gpustack_ctl.webhooks import pki
from gpustack_ctl.webhooks.certificates import SECRET_NAME
from gpustack_ctl.webhooks.pki import Validity
from gpustack_ctl.webhooks.registration import MUTATION
from tests.integration.webhooks.conftest import Pool
from tests.integration.webhooks.objects import HALF, pod
from tests.integration.webhooks.replica import CONFIGURATIONS, Replica, running_replica, until


async def bundles(kube: Kube) -> set[str]:
    """Every caBundle that is registered."""
    found = [await kube.get(resource, name) for resource, name in CONFIGURATIONS]
    return {entry["clientConfig"].get("caBundle", "") for live in found for entry in live["webhooks"]}


async def authority(kube: Kube, namespace: str) -> str:
    secret: Obj = await kube.get(SECRETS, SECRET_NAME, namespace)
    bundle: str = secret["data"]["ca.crt"]
    return bundle


async def test_our_mutation_comes_before_kueues(kube: Kube, replica: Replica):
    names = sorted(found["metadata"]["name"] for found in await kube.list(MUTATING_WEBHOOKS))
    kueues = [name for name in names if name.startswith("kueue-")]
    assert kueues
    assert names.index(MUTATION) < names.index(kueues[0])


async def test_two_replicas_serve_one_certificate(kube: Kube, namespace: str):
    async with running_replica(kube, namespace) as one, running_replica(kube, namespace, leads=False) as other:
        assert await one.certificate() == await other.certificate()
        assert await bundles(kube) == {await authority(kube, namespace)}


async def test_two_replicas_that_start_together_make_one_authority(kube: Kube, namespace: str):
    replicas: list[Replica] = []
    done = anyio.Event()

    async def start() -> None:
        async with running_replica(kube, namespace, leads=False) as replica:
            replicas.append(replica)
            await done.wait()

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(start)

        async def all_started() -> bool:
            return len(replicas) == 5

        await until("five replicas", all_started)
        assert len({await replica.certificate() for replica in replicas}) == 1
        done.set()


@pytest.mark.parametrize(
    "change",
    [
        {"clientConfig": {"url": "https://127.0.0.1:1/mutate/pods", "caBundle": base64.b64encode(b"x").decode()}},
        {"failurePolicy": "Ignore"},
        {"objectSelector": {"matchLabels": {"no": "thing"}}},
    ],
    ids=["client", "policy", "selector"],
)
async def test_what_somebody_edits_is_put_back(kube: Kube, replica: Replica, change: dict[str, Any]):
    before = (await kube.get(MUTATING_WEBHOOKS, MUTATION))["webhooks"]
    edited = await kube.get(MUTATING_WEBHOOKS, MUTATION)
    edited["webhooks"][0] |= change
    await kube.replace(MUTATING_WEBHOOKS, edited)

    async def restored() -> bool:
        live: list[Obj] = (await kube.get(MUTATING_WEBHOOKS, MUTATION))["webhooks"]
        return live == before

    await until("the webhooks as they were", restored)


async def test_a_configuration_that_is_deleted_comes_back(kube: Kube, replica: Replica):
    for resource, name in CONFIGURATIONS:
        uid = (await kube.get(resource, name))["metadata"]["uid"]
        await kube.delete(resource, name)

        async def back(resource: Any = resource, name: str = name, uid: str = uid) -> bool:
            return bool((await kube.get(resource, name))["metadata"]["uid"] != uid)

        await until(f"{name} again", back)


async def test_a_settled_registration_is_not_written_again(kube: Kube, replica: Replica):
    before = [(await kube.get(resource, name))["metadata"]["resourceVersion"] for resource, name in CONFIGURATIONS]
    await kube.patch(MUTATING_WEBHOOKS, MUTATION, {"metadata": {"labels": {"somebody": "else"}}})
    await anyio.sleep(1)
    after = [(await kube.get(resource, name))["metadata"] for resource, name in CONFIGURATIONS]
    assert after[0]["labels"] == {"somebody": "else"}
    assert after[1]["resourceVersion"] == before[1]


async def test_a_secret_full_of_junk_is_replaced(kube: Kube, namespace: str, pool: Pool, replica: Replica):
    before = await authority(kube, namespace)
    junk = {key: base64.b64encode(b"junk").decode() for key in ("tls.crt", "tls.key", "ca.crt")}
    await kube.patch(SECRETS, SECRET_NAME, {"data": junk}, namespace=namespace)

    async def replaced() -> bool:
        now = await authority(kube, namespace)
        return now not in (before, junk["ca.crt"]) and await bundles(kube) == {now}

    await until("a new authority, registered", replaced)
    await until("a Pod folded under it", lambda: folds(kube, namespace, pool))


async def folds(kube: Kube, namespace: str, pool: Pool) -> bool:
    try:
        await kube.create(PODS, pod("after", namespace, pool.queue, HALF), dry_run=True)
    except ApiError:
        return False
    return True


async def test_years_of_rotation_refuse_nobody(kube: Kube, namespace: str, pool: Pool):
    """A leaf of six seconds under an authority of twenty: both change under a client that never stops asking."""
    validity = Validity(authority=timedelta(seconds=20), leaf=timedelta(seconds=6), settle=timedelta(seconds=1))
    leaves, authorities, asked = set(), set(), 0
    async with (
        running_replica(kube, namespace, validity=validity) as replica,
        running_replica(kube, namespace, leads=False, validity=validity) as other,
    ):
        ends = anyio.current_time() + 14
        while anyio.current_time() < ends:
            await kube.create(PODS, pod(f"half-{asked}", namespace, pool.queue, HALF), dry_run=True)
            asked += 1
            leaves |= {await replica.certificate(), await other.certificate()}
            authorities.add(await authority(kube, namespace))
            await anyio.sleep(0.05)
        assert replica.webhooks.ready
        assert other.webhooks.ready
    assert asked > 100
    assert len(leaves) >= 3
    assert len(authorities) >= 2


async def test_certificates_of_somebody_elses_are_served_from_their_directory(
    kube: Kube, namespace: str, pool: Pool, tmp_path: Path
):
    def put(made: pki.Certificates) -> None:
        for name, content in (("tls.crt", made.leaf.certificate), ("tls.key", made.leaf.key), ("ca.crt", made.trusted)):
            (tmp_path / name).write_bytes(content)

    first, second = (pki.first({"127.0.0.1"}, datetime.now(UTC)) for _ in range(2))
    put(first)
    async with running_replica(kube, namespace, cert_dir=tmp_path) as replica:
        assert await replica.certificate() == first.leaf.certificate.decode()
        assert await folds(kube, namespace, pool)
        put(second)

        async def changed() -> bool:
            return await bundles(kube) == {base64.b64encode(second.trusted).decode()}

        await until("the new authority, registered", changed)
        assert await replica.certificate() == second.leaf.certificate.decode()
        await until("a Pod folded under it", lambda: folds(kube, namespace, pool))
    with pytest.raises(ApiError):
        await kube.get(SECRETS, SECRET_NAME, namespace)


async def test_without_a_server_a_queued_pod_waits_and_any_other_starts(kube: Kube, namespace: str, pool: Pool):
    async with running_replica(kube, namespace):
        left = [await kube.get(resource, name) for resource, name in CONFIGURATIONS]
    for (resource, _), live in zip(CONFIGURATIONS, left, strict=True):
        metadata = {"name": live["metadata"]["name"]}
        await kube.create(resource, {"metadata": metadata, "webhooks": live["webhooks"]})
    try:

        async def refused() -> bool:
            return not await folds(kube, namespace, pool)

        await until("queued Pods refused", refused)
        await kube.create(PODS, pod("free", namespace, None, HALF), dry_run=True)
    finally:
        for resource, name in CONFIGURATIONS:
            await kube.delete(resource, name)
