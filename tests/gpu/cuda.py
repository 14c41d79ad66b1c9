"""The least of CUDA, through the driver's own library: a process that holds a device, and one that faults on it."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: One thread that writes where no memory is.
_FAULT = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry fault() { .reg .b64 %a; mov.b64 %a, 0x10; st.global.u32 [%a], 1; ret; }
"""


def context() -> ctypes.CDLL:
    """A context on the first visible device."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, made = ctypes.c_int(), ctypes.c_void_p()
    for answer in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0)):
        assert answer == 0, f"CUDA error {answer}"
    assert cuda.cuCtxCreate_v2(ctypes.byref(made), 0, device) == 0
    return cuda


def fault() -> None:
    """End with an illegal address; the driver reports it as an XID of the program."""
    cuda = context()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), _FAULT) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"fault") == 0
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
    assert cuda.cuCtxSynchronize() != 0


@contextmanager
def holding(device: str) -> Iterator[None]:
    """While inside, a process has a context on the device, by its UUID."""
    code = "import sys; from tests.gpu.cuda import context; context(); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": device},
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "held"
        try:
            yield
        finally:
            process.communicate(timeout=30)
