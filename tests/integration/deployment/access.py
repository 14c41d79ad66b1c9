"""A user who may do exactly what the manifests say, and what the API server refused it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import orjson

from gpustack_ctl.deployment import rbac
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import AlreadyExists
from gpustack_ctl.kube.objects import Obj, Objs, name_of, namespace_of
from gpustack_ctl.kube.resources import NAMESPACES, Resource
from gpustack_ctl.localcluster import LocalCluster

NAMESPACE = "gpustack-system"

_RESOURCES = {
    resource.kind: resource
    for resource in (
        rbac.CLUSTER_ROLES,
        rbac.CLUSTER_ROLE_BINDINGS,
        rbac.ROLES,
        rbac.ROLE_BINDINGS,
        rbac.SERVICE_ACCOUNTS,
    )
}


@asynccontextmanager
async def granted(kube: Kube, manifests: Objs) -> AsyncIterator[None]:
    """The manifests applied; gone afterwards."""
    with suppress(AlreadyExists):
        await kube.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    for manifest in manifests:
        await kube.apply(_resource(manifest), manifest, manager="test")
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            for manifest in manifests:
                await kube.delete(_resource(manifest), name_of(manifest), namespace_of(manifest) or None)


def kubeconfig_of(cluster: LocalCluster, account: str) -> Path:
    """As a service account of our namespace: RBAC knows one by its user name."""
    return cluster.kubeconfig_for(user_of(account))


def user_of(account: str) -> str:
    return f"system:serviceaccount:{NAMESPACE}:{account}"


async def audited(cluster: LocalCluster) -> int:
    """How much is in the API server's audit log, which is written in batches."""
    await anyio.sleep(2)
    return (await anyio.Path(cluster.log("audit")).stat()).st_size


async def requests_of(cluster: LocalCluster, account: str, *, since: int) -> Objs:
    """Everything that the account has asked of the API server since the log had that size, leases excepted."""
    end = await audited(cluster)
    lines = (await anyio.Path(cluster.log("audit")).read_bytes())[since:end].splitlines()
    mine = b'"username":"' + user_of(account).encode() + b'"'
    return [orjson.loads(line) for line in lines if mine in line]


def refused(requests: Objs) -> list[str]:
    """The requests that RBAC did not allow."""
    return sorted({f"{request['verb']} {request['requestURI']}" for request in requests if _forbidden(request)})


def _forbidden(request: Obj) -> bool:
    decision: str = (request.get("annotations") or {}).get("authorization.k8s.io/decision", "")
    return decision == "forbid"


def _resource(manifest: Obj) -> Resource:
    return _RESOURCES[manifest["kind"]]
