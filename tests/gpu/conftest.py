"""Skips only where there is no card at all: a card whose driver does not answer is a failure."""

from pathlib import Path

import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.agent.detectors.nvml import NvmlDetector
from gpustack_ctl.agent.nvml.host import cards_on_the_bus
from gpustack_ctl.agent.nvml.session import Nvml
from gpustack_ctl.agent.partition_markers import Markers

TABLE = manufacturers()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a real card and its driver")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    none = not cards_on_the_bus(TABLE.by_key["nvidia"].pci_vendor)
    for item in items:
        if "tests/gpu" not in item.path.as_posix():
            continue
        item.add_marker(pytest.mark.gpu)
        if none:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA card on the PCI bus"))


@pytest.fixture
async def nvml():
    session = Nvml()
    yield session
    await session.close()


@pytest.fixture
def detector(nvml: Nvml, tmp_path: Path) -> NvmlDetector:
    return NvmlDetector(nvml, Markers(tmp_path), table=TABLE)
