"""The two images of a local cluster, made on the spot from the machine's busybox: no registry is asked for anything.

Both are one layer and differ in what they run. The pause image is the sandbox of every Pod: it waits, reaps what the
Pod's processes leave when they share its PID namespace, and goes when asked.
"""

import hashlib
import io
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import orjson

from gpustack_ctl.localcluster.errors import LocalClusterError

PAUSE = "gpustack.local/pause:1"
BUSYBOX = "gpustack.local/busybox:1"

_PAUSE = ["/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"]
_DIRECTORIES = ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "var")
_PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"


def write_archive(path: Path) -> None:
    """Both images as one docker-archive, which `ctr images import` reads."""
    layer = _layer(_static_busybox())
    images = {PAUSE: _PAUSE, BUSYBOX: ["/bin/sh"]}
    manifest = []
    with tarfile.open(path, "w") as archive:
        _add(archive, "layer.tar", layer)
        for number, (name, command) in enumerate(images.items()):
            _add(archive, f"{number}.json", orjson.dumps(_config(command, layer)))
            manifest.append({"Config": f"{number}.json", "RepoTags": [name], "Layers": ["layer.tar"]})
        _add(archive, "manifest.json", orjson.dumps(manifest))


def _config(command: list[str], layer: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    return {
        "architecture": _architecture(),
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [digest]},
    }


def _layer(busybox: Path) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as layer:
        for directory in _DIRECTORIES:
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if directory == "tmp" else 0o755
            layer.addfile(entry)
        _add(layer, "bin/busybox", busybox.read_bytes(), mode=0o755)
        _add(layer, "etc/passwd", _PASSWD)
        for applet in _applets(busybox):
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            layer.addfile(link)
    return data.getvalue()


def _applets(busybox: Path) -> list[str]:
    listed = subprocess.run([str(busybox), "--list"], capture_output=True, text=True, check=True).stdout.split()
    return [applet for applet in listed if applet != "busybox" and "/" not in applet]


def _static_busybox() -> Path:
    """A container sees nothing of this machine's libraries, so only a static busybox runs in one."""
    path = Path(shutil.which("busybox") or "/bin/busybox")
    if b"/ld-linux" in path.read_bytes()[:4096]:
        raise LocalClusterError(f"{path} is not statically linked", "apt-get install -y busybox-static")
    return path


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _add(archive: tarfile.TarFile, name: str, data: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))
