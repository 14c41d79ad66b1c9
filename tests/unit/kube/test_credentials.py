"""A configuration that cannot be used says which one, and why."""

from pathlib import Path

import pytest
import yaml

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.credentials import Credentials
from gpustack_ctl.kube.errors import BadKubeconfig

PLAIN = {
    "current-context": "here",
    "contexts": [
        {"name": "here", "context": {"cluster": "one", "user": "me"}},
        {"name": "there", "context": {"cluster": "two", "user": "me"}},
    ],
    "clusters": [
        {"name": "one", "cluster": {"server": "http://127.0.0.1:1"}},
        {"name": "two", "cluster": {"server": "http://127.0.0.1:2"}},
    ],
    "users": [{"name": "me", "user": {"token": "secret"}}],
}


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a kubeconfig, outside any cluster."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def written(path: Path, document: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return str(path)


async def server(kubeconfig: str | None = None, context: str | None = None) -> str:
    async with Kube.connect(kubeconfig=kubeconfig, context=context) as kube:
        return kube.server


async def test_the_named_file_comes_before_the_variable_and_that_before_the_home(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(nowhere / ".kube" / "config", PLAIN)
    assert await server() == "http://127.0.0.1:1"
    monkeypatch.setenv("KUBECONFIG", written(nowhere / "variable", PLAIN | {"current-context": "there"}))
    assert await server() == "http://127.0.0.1:2"
    assert await server(written(nowhere / "named", PLAIN)) == "http://127.0.0.1:1"


async def test_a_context_chooses_the_cluster(nowhere: Path) -> None:
    assert await server(written(nowhere / "named", PLAIN), "there") == "http://127.0.0.1:2"


@pytest.mark.parametrize(
    ("document", "context", "says"),
    [
        ("a: [", None, "while parsing"),
        ("", None, "is not a kubeconfig"),
        ("just text", None, "is not a kubeconfig"),
        ({"clusters": []}, None, "current-context"),
        (PLAIN, "elsewhere", "elsewhere"),
        (PLAIN | {"users": [{"name": "me", "user": {"tokenFile": "/no/such/token"}}]}, None, "/no/such/token"),
        (
            PLAIN
            | {"clusters": [{"name": "one", "cluster": {"server": "https://x", "certificate-authority": "/no/ca"}}]},
            None,
            "/no/ca",
        ),
    ],
)
async def test_a_bad_file_is_named_with_what_is_wrong(
    nowhere: Path, document: object, context: str | None, says: str
) -> None:
    path = written(nowhere / "bad", document)
    with pytest.raises(BadKubeconfig) as refusal:
        await server(path, context)
    assert path in str(refusal.value)
    assert says in str(refusal.value)


async def test_a_missing_file_is_named(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadKubeconfig, match="/no/such/file: no such file"):
        await server("/no/such/file")
    monkeypatch.setenv("KUBECONFIG", "/no/such/variable")
    with pytest.raises(BadKubeconfig, match="KUBECONFIG=/no/such/variable: no such file"):
        await server()


async def test_no_configuration_at_all_says_where_it_was_looked_for() -> None:
    with pytest.raises(BadKubeconfig, match=r"--kubeconfig.*KUBECONFIG.*\.kube/config.*not a Pod"):
        await server()


@pytest.mark.parametrize(
    ("server", "exempt", "proxy"),
    [
        ("https://cluster.example:6443", "", "http://proxy.example:3128"),
        ("https://cluster.example:6443", "other.example,cluster.example", None),
        ("https://127.0.0.1:6443", "", None),
        ("https://[::1]:6443", "", None),
        ("https://localhost:6443", "", None),
        ("http://cluster.example", "", None),
    ],
)
async def test_the_environments_proxy_is_used_where_kubectl_would_use_it(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, server: str, exempt: str, proxy: str | None
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", exempt)
    elsewhere = PLAIN | {"clusters": [{"name": "one", "cluster": {"server": server}}]}
    credentials = await Credentials.load(kubeconfig=written(nowhere / "named", elsewhere))
    try:
        assert credentials.options.get("proxy") == proxy
    finally:
        await credentials.close()


async def test_the_generated_models_are_never_loaded() -> None:
    import sys

    assert "kubernetes_asyncio.client.rest" in sys.modules
    assert not [name for name in sys.modules if name.startswith("kubernetes_asyncio.client.models")]
