"""An API server of one's own, to be killed, cut off and compacted at will: etcd and kube-apiserver, nothing more."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from gpustack_ctl.localcluster.api import write_kubeconfig
from gpustack_ctl.localcluster.assets import Assets
from gpustack_ctl.localcluster.health import ADMIN
from gpustack_ctl.localcluster.pki import Authority
from gpustack_ctl.localcluster.programs import Ports, api_server, etcd
from gpustack_ctl.localcluster.run import Run

MASTERS = ("system:masters",)


class Plane:
    """The two programs, and kubeconfigs that lead to them, straight or by another port."""

    def __init__(self, run: Run, ports: Ports) -> None:
        self.run = run
        self.ports = ports

    def kubeconfig(self, *, user: str = ADMIN, groups: tuple[str, ...] = MASTERS, port: int | None = None) -> str:
        port = port or self.ports.api
        path = self.run.directory / "users" / f"{user}-{port}.kubeconfig"
        pair = self.run.authority.issue(user, groups=groups)
        write_kubeconfig(
            path,
            server=f"https://127.0.0.1:{port}",
            authority=self.run.authority.certificate,
            certificate=pair.certificate,
            key=pair.key,
            user=user,
        )
        return str(path)

    async def kill(self) -> None:
        await self.run.kill("kube-apiserver")

    async def start(self) -> None:
        await self.run.start(self.run.program("kube-apiserver"))

    async def forget_the_past(self) -> None:
        """Compact etcd to the present, and restart the API server, whose own memory starts there."""
        etcd = f"http://127.0.0.1:{self.ports.etcd}/v3/kv"
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            async with session.post(f"{etcd}/range", json={"key": "AA=="}) as response:
                revision = (await response.json())["header"]["revision"]
            await session.post(f"{etcd}/compaction", json={"revision": revision, "physical": True})
        await self.kill()
        await self.start()


@asynccontextmanager
async def plane_in(directory: Path, assets: Assets) -> AsyncIterator[Plane]:
    run = Run(directory, die_with_parent=True)
    ports = Ports.free()
    run.server = f"https://127.0.0.1:{ports.api}"
    Authority.create(directory / "pki")
    run.authority.issue(ADMIN, groups=MASTERS)
    try:
        await run.start(etcd(run, assets, ports))
        await run.start(api_server(run, assets, ports, audit=False))
        yield Plane(run, ports)
    finally:
        await run.end()
