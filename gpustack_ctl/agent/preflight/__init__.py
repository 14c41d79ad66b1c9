"""What would block an allocation on this node, found before a workload finds it.

Every check asks the thing itself, the way an allocation would: the driver for its cards, the sockets for an answer, the
directories for a write. A check that does not apply here says so, which is not the same as passing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.agent.config import NodeAgentConfig
from gpustack_ctl.agent.hardware import open_hardware
from gpustack_ctl.agent.preflight import cards, kubelet, runtime, slices
from gpustack_ctl.agent.preflight.finding import Finding, State
from gpustack_ctl.agent.switches import switches

__all__ = ["Finding", "State", "preflight"]


async def preflight(
    config: NodeAgentConfig, *, kubeconfig: str | None = None, context: str | None = None
) -> AsyncIterator[Finding]:
    """Every check, in the order in which an allocation needs them. Raises BadConfigError or DocumentError."""
    table = manufacturers(config.env)
    turned = switches(config.env, manufacturers=table.by_key)
    hardware = open_hardware(config, table=table, switches=turned)

    driver, found = await cards.driver(hardware.detector, config.detector)
    yield driver
    yield cards.accelerators(found)
    yield cards.partitions(found, config.detector)
    yield kubelet.state_directory(config.state_dir)
    yield kubelet.plugin_directory(config.kubelet_dir)
    yield await kubelet.plugin_socket(config.kubelet_dir)
    yield await kubelet.pod_resources(config.kubelet_dir, wanted=turned.identify_by_kubelet)
    present = [table.by_key[key] for key in dict.fromkeys(model.manufacturer for model in found.models)]
    yield await runtime.runtime_class(present, kubeconfig=kubeconfig, context=context)
    yield runtime.cdi(present, wanted=turned.cdi_annotations)
    async for finding in slices.enforcement(found, table=table, switches=turned, state_dir=config.state_dir):
        yield finding
