"""Who we are to which server: configuration, and credentials that stay fresh.

kubernetes-asyncio reads kubeconfig files (client certificates, tokens, token files, exec plugins, OIDC) and service
accounts. What it leaves open is the life after start: a token that the server stops accepting is read anew, once for
all the requests that met the refusal, and a plugin that hands out certificates gets a new session for them.
"""

import os
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import anyio
import yaml

from gpustack_ctl.kube._lean import ConfigException, Configuration, RESTClient, config
from gpustack_ctl.kube.errors import BadKubeconfig

_DEFAULT = "~/.kube/config"


class Credentials:
    """A session to one server, and the authorization that its requests carry."""

    def __init__(self, files: str | None, context: str | None) -> None:
        self._files = files
        self._context = context
        self._configuration: Any = None
        self._open: list[_Session] = []  # the last one is in use; streams of the others may still be read
        self._renewing = anyio.Lock()
        self.generation = 0
        self.user = "this service account" if files is None else "this user"

    @classmethod
    async def load(cls, *, kubeconfig: str | None = None, context: str | None = None) -> Self:
        """From `kubeconfig`, else ``$KUBECONFIG``, else ``~/.kube/config``, else this Pod's service account."""
        credentials = cls(_find(kubeconfig, context), context)
        await credentials._read()
        return credentials

    @property
    def server(self) -> str:
        host: str = self._configuration.host
        return host

    @property
    def session(self) -> aiohttp.ClientSession:
        return self._open[-1].session

    @property
    def options(self) -> dict[str, Any]:
        """What each request of the session needs to be told: the proxy, and the name its certificate must carry."""
        return self._open[-1].options

    async def authorization(self) -> str | None:
        """The Authorization header; a service account's token file is read again as it is rotated."""
        token: str | None = await self._configuration.get_api_key_with_prefix("BearerToken")
        return token

    async def renew(self, generation: int) -> bool:
        """Read everything again after a refusal, unless somebody did since `generation`; whether it is worth a try."""
        async with self._renewing:
            if generation != self.generation:
                return True
            self.generation += 1
            before = (await self.authorization(), self._configuration.cert_file, self._configuration.key_file)
            try:
                await self._read()
            except BadKubeconfig:
                return False
            return before != (await self.authorization(), self._configuration.cert_file, self._configuration.key_file)

    async def close(self) -> None:
        for session in self._open:
            await session.close()

    async def _read(self) -> None:
        fresh = Configuration()
        try:
            if self._files is None:
                config.load_incluster_config(client_configuration=fresh)
            else:
                loader = await config.load_kube_config(self._files, self._context, client_configuration=fresh)
                self.user = _user_of(loader.current_context) or self.user
        except (ConfigException, OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
            raise BadKubeconfig(_advice(self._files, error)) from error
        old, self._configuration = self._configuration, fresh
        if old is None or _tls(old) != _tls(fresh):
            try:
                self._open.append(_Session(fresh))
            except (OSError, ValueError) as error:
                raise BadKubeconfig(_advice(self._files, error)) from error


class _Session:
    """kubernetes-asyncio's connector (TLS, pool) under a session that asks the environment for a proxy once.

    Its own session would also look for a netrc file at every request, in a thread.
    """

    def __init__(self, configuration: Any) -> None:
        self._rest = RESTClient(configuration)
        self.session = aiohttp.ClientSession(connector=self._rest.pool_manager.connector, connector_owner=False)
        self.options: dict[str, Any] = {}
        if proxy := configuration.proxy or _proxy_of_environment(configuration.host):
            self.options |= {"proxy": proxy, "proxy_headers": configuration.proxy_headers}
        if configuration.tls_server_name:
            self.options["server_hostname"] = configuration.tls_server_name

    async def close(self) -> None:
        await self.session.close()
        await self._rest.close()


def _proxy_of_environment(server: str) -> str | None:
    """``HTTPS_PROXY`` and its kin, unless ``NO_PROXY`` names the server or it is on this machine, as for kubectl."""
    url = urlsplit(server)
    if not url.hostname or _is_loopback(url.hostname) or proxy_bypass(url.netloc):
        return None
    return getproxies().get(url.scheme)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _find(kubeconfig: str | None, context: str | None) -> str | None:
    """The kubeconfig files to read, or None for the service account of the Pod we run in."""
    if kubeconfig is not None:
        if not Path(kubeconfig).expanduser().is_file():
            raise BadKubeconfig(f"kubeconfig {kubeconfig}: no such file")
        return kubeconfig
    if named := os.environ.get("KUBECONFIG"):
        if not any(Path(file).expanduser().is_file() for file in named.split(os.pathsep) if file):
            raise BadKubeconfig(f"KUBECONFIG={named}: no such file")
        return named
    if Path(_DEFAULT).expanduser().is_file():
        return _DEFAULT
    if "KUBERNETES_SERVICE_HOST" in os.environ and context is None:
        return None
    raise BadKubeconfig(
        f"no cluster is configured: there is no --kubeconfig, no KUBECONFIG, no {_DEFAULT}, and this is not a Pod"
    )


def _advice(files: str | None, error: Exception) -> str:
    if files is None:
        return f"this Pod's service account cannot be used: {error}"
    if isinstance(error, (TypeError, AttributeError)):
        return f"kubeconfig {files} is not a kubeconfig: clusters, users, contexts and current-context are expected"
    return f"kubeconfig {files}: {error}"


def _user_of(context: Any) -> str:
    named = (context or {}).get("context") or {}
    return str(named.get("user") or "")


def _tls(configuration: Any) -> tuple[Any, ...]:
    return (
        configuration.host,
        configuration.ssl_ca_cert,
        configuration.cert_file,
        configuration.key_file,
        configuration.proxy,
    )
