"""Credentials that plugins and files hand out are used, and read again once the server stops taking them."""

import stat
import sys
from pathlib import Path

import orjson
import pytest
import yaml

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.errors import BadKubeconfig, Forbidden, NotFound
from gpustack_ctl.kube.objects import Obj
from gpustack_ctl.kube.resources import NAMESPACES, PODS, Resource
from tests.integration.kube.plane import MASTERS, Plane

SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


def kubeconfig(directory: Path, plane: Plane, user: Obj, *, server: str = "") -> str:
    authority = str(plane.run.authority.certificate)
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "someone"}}],
        "clusters": [
            {"name": "k", "cluster": {"server": server or plane.run.server, "certificate-authority": authority}}
        ],
        "users": [{"name": "someone", "user": user}],
    }
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def plugin(directory: Path, script: str) -> Obj:
    """An exec plugin, as cloud providers ship them; each run leaves a line in ``runs``."""
    path = directory / "plugin"
    path.write_text(f"#!/bin/sh\necho run >> {directory}/runs\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never"}}


def runs(directory: Path) -> int:
    return len((directory / "runs").read_text().splitlines())


def credential(**status: str) -> str:
    return orjson.dumps(
        {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    ).decode()


async def token(kube: Kube, namespace: str) -> str:
    """What a Pod of that namespace would be given."""
    account = {"metadata": {"namespace": namespace, "name": "reader"}}
    await kube.create(SERVICE_ACCOUNTS, account)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    path = SERVICE_ACCOUNTS.path("reader", namespace, "token")
    answer = orjson.loads(await kube._transport.request("POST", path, body=request))
    issued: str = answer["status"]["token"]
    return issued


async def who_am_i(kube: Kube) -> str:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = orjson.loads(await kube._transport.request("POST", path, body=review))
    name: str = answer["status"]["userInfo"]["username"]
    return name


async def test_a_plugin_may_hand_out_certificates(plane: Plane, tmp_path: Path) -> None:
    pair = plane.run.authority.issue("plugged-in", groups=MASTERS)
    (tmp_path / "credential").write_text(
        credential(clientCertificateData=pair.certificate.read_text(), clientKeyData=pair.key.read_text())
    )
    user = plugin(tmp_path, f"cat {tmp_path}/credential")
    async with Kube.connect(kubeconfig=kubeconfig(tmp_path, plane, user)) as kube:
        assert await who_am_i(kube) == "plugged-in"


async def test_a_refused_token_is_asked_for_again_and_the_request_repeated(
    kube: Kube, plane: Plane, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "credential").write_text(credential(token="expired"))
    user = plugin(tmp_path, f"cat {tmp_path}/credential")
    async with Kube.connect(kubeconfig=kubeconfig(tmp_path, plane, user)) as plugged_in:
        (tmp_path / "credential").write_text(credential(token=await token(kube, namespace)))
        assert await who_am_i(plugged_in) == f"system:serviceaccount:{namespace}:reader"
        assert runs(tmp_path) == 2
        await who_am_i(plugged_in)
        assert runs(tmp_path) == 2


async def test_a_token_that_stays_refused_is_an_error_and_no_loop(plane: Plane, tmp_path: Path) -> None:
    user = plugin(tmp_path, f"echo '{credential(token='wrong')}'")
    async with Kube.connect(kubeconfig=kubeconfig(tmp_path, plane, user)) as kube:
        with pytest.raises(Forbidden, match="credentials of someone"):
            await kube.list(PODS)
    assert runs(tmp_path) == 2


async def test_a_rotated_token_file_is_read_again(kube: Kube, plane: Plane, namespace: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("before-rotation")
    async with Kube.connect(kubeconfig=kubeconfig(tmp_path, plane, {"tokenFile": str(file)})) as rotated:
        file.write_text(await token(kube, namespace))
        assert await who_am_i(rotated) == f"system:serviceaccount:{namespace}:reader"


async def test_a_pod_uses_its_service_account(
    kube: Kube, plane: Plane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(plane.ports.api))
    mounted = tmp_path / "token"
    mounted.write_text(await token(kube, namespace))
    loader = "kubernetes_asyncio.config.incluster_config"
    monkeypatch.setattr(sys.modules[loader], "SERVICE_TOKEN_FILENAME", str(mounted))
    monkeypatch.setattr(sys.modules[loader], "SERVICE_CERT_FILENAME", str(plane.run.authority.certificate))
    async with Kube.connect() as pod:
        assert await who_am_i(pod) == f"system:serviceaccount:{namespace}:reader"


async def test_a_plugin_that_fails_is_named(plane: Plane, tmp_path: Path) -> None:
    user = plugin(tmp_path, "echo no login >&2; exit 1")
    path = kubeconfig(tmp_path, plane, user)
    with pytest.raises(BadKubeconfig, match=path):
        async with Kube.connect(kubeconfig=path):
            pass


async def test_what_answers_but_is_no_api_server_is_told_apart(plane: Plane, tmp_path: Path) -> None:
    etcd = f"http://127.0.0.1:{plane.ports.etcd}"
    async with Kube.connect(kubeconfig=kubeconfig(tmp_path, plane, {}, server=etcd)) as kube:
        with pytest.raises(NotFound, match="404 page not found"):
            await kube.get(NAMESPACES, "default")
