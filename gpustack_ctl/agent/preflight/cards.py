"""The driver and its cards: one detection pass, as the agent makes it."""

from __future__ import annotations

import os

from gpustack_ctl.agent.detectors.detector import DetectionError, Detector
from gpustack_ctl.agent.inventory import Inventory
from gpustack_ctl.agent.preflight.finding import Finding, State


async def driver(detector: Detector, kind: str) -> tuple[Finding, Inventory]:
    """Whether the driver answers, and what it answered."""
    try:
        found = await detector.detect()
    except DetectionError as error:
        return Finding("driver", State.UNAVAILABLE, str(error), error.remedy), Inventory()
    if kind != "nvml":
        return Finding("driver", State.NOT_DECLARED, f"the {kind} detector asks no driver"), found
    versions = {(model.driver_version, model.runtime_version) for model in found.models}
    told = ", ".join(f"driver {driver}, CUDA up to {cuda}" for driver, cuda in sorted(versions))
    if not told:
        return Finding("driver", State.NOT_DECLARED, "no card on the PCI bus needs one"), found
    return Finding("driver", State.OK, told), found


def accelerators(found: Inventory) -> Finding:
    """Whether there are cards, and whether they are well."""
    cards = [card for model in found.models for card in model.cards]
    ill = [card.id for card in cards if not card.healthy]
    if not cards:
        return Finding("accelerators", State.UNAVAILABLE, "none found", "look at the driver's finding above")
    if ill:
        return Finding(
            "accelerators",
            State.UNAVAILABLE,
            f"{len(ill)} of {len(cards)} unhealthy: {', '.join(ill)}",
            "look for Xid in the kernel's log (dmesg), end the card's Pods, reset it: nvidia-smi --gpu-reset -i ID",
        )
    models = ", ".join(f"{len(model.cards)} {model.product}" for model in found.models)
    return Finding("accelerators", State.OK, models)


def partitions(found: Inventory, kind: str) -> Finding:
    """Whether this process may cut partitions, where some are to be cut."""
    cut = [card.id for model in found.models for card in model.cards if card.profiles]
    if not cut:
        return Finding("partitions", State.NOT_DECLARED, "no card is in MIG mode")
    if kind == "nvml" and os.geteuid() != 0:
        return Finding(
            "partitions",
            State.UNAVAILABLE,
            f"in MIG mode: {', '.join(cut)}; only root may create instances",
            "run the agent as root, in a Pod with securityContext.privileged",
        )
    return Finding("partitions", State.OK, f"in MIG mode: {', '.join(cut)}")
