"""A program can be killed and started again, as a fault test does; what it knew is still known."""

import anyio
import pytest

from gpustack_ctl.localcluster import LocalCluster, LocalClusterError
from gpustack_ctl.localcluster.api import ApiStatusError, connect
from gpustack_ctl.localcluster.polling import until


@pytest.mark.parametrize("program", ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kueue"])
async def test_a_killed_program_starts_again_with_what_it_knew(
    control_plane: LocalCluster, namespace: str, program: str
) -> None:
    await control_plane.kill(program)
    found = await control_plane.status()
    assert program in {one.name for one in found.programs if not one.ready}
    await control_plane.start(program)

    async def whole() -> bool:  # the API server finds its etcd again by itself
        return (await control_plane.status()).up

    assert await until(whole, seconds=20), await control_plane.status()
    async with connect(control_plane.kubeconfig) as api:
        assert (await api.get(f"/api/v1/namespaces/{namespace}"))["metadata"]["name"] == namespace


async def test_an_unknown_program_is_named(control_plane: LocalCluster) -> None:
    with pytest.raises(LocalClusterError, match="no program 'kube-proxy'"):
        await control_plane.kill("kube-proxy")


async def test_a_user_made_while_it_runs_has_a_name_and_no_rights(control_plane: LocalCluster, namespace: str) -> None:
    async with connect(control_plane.kubeconfig_for("tenant", groups=("tenants",))) as api:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        me = await api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
        assert me["status"]["userInfo"]["username"] == "tenant"
        assert "tenants" in me["status"]["userInfo"]["groups"]
        with pytest.raises(ApiStatusError, match="forbidden") as refused:
            await api.get(f"/api/v1/namespaces/{namespace}/pods")
        assert refused.value.status == 403


async def test_the_audit_log_names_who_wrote(control_plane: LocalCluster, namespace: str) -> None:
    log = anyio.Path(control_plane.log("audit"))

    async def named() -> bool:  # written in batches
        lines = (await log.read_text()).splitlines()
        return any(f'"name":"{namespace}"' in line and '"username":"admin"' in line for line in lines)

    assert await until(named, seconds=10)


async def test_kueue_gates_a_pod_that_names_a_queue(control_plane: LocalCluster, namespace: str) -> None:
    pod = {
        "metadata": {"name": "queued", "labels": {"kueue.x-k8s.io/queue-name": "nowhere"}},
        "spec": {"containers": [{"name": "main", "image": "gpustack.local/busybox:1"}]},
    }
    async with connect(control_plane.kubeconfig) as api:
        made = await api.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    assert {"name": "kueue.x-k8s.io/admission"} in made["spec"]["schedulingGates"]
