"""A machine with cards for every test: the real bindings, on the stub library."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpustack_ctl.agent.nvml.session import Nvml
from tests.nvml_stub.machine import Machine, StubCard, build, load


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = build(tmp_path_factory.mktemp("nvml"))
    load(library)
    return library


@pytest.fixture
def machine(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Machine]:
    """Makes the machine: `machine(StubCard("GPU-0"), …)`."""
    directory = tmp_path / "machine"
    directory.mkdir()
    monkeypatch.setenv("NVML_STUB_DIR", str(directory))

    def make(*cards: StubCard) -> Machine:
        return Machine(directory, *cards)

    return make


@pytest.fixture
async def nvml(nvml_library: Path) -> Iterator[Nvml]:
    session = Nvml()
    yield session
    await session.close()
