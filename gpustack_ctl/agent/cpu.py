"""Which CPU this node has, for its feature labels.

Node Feature Discovery tells the maker where it runs, but no product name, so the rest is read from /proc/cpuinfo. A CPU
that cannot be told is `generic`: it still serves, it only cannot be chosen by name.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpustack_ctl.accel.naming import GENERIC, gkey
from gpustack_ctl.accel.units import QuantityError, quantity
from gpustack_ctl.kube.objects import Obj, labels_of

_NFD_VENDOR = "feature.node.kubernetes.io/cpu-model.vendor_id"


@dataclass(frozen=True, slots=True)
class Cpu:
    """A node's CPU. `cores` is what the kubelet counts."""

    key: str = GENERIC
    cores: int = 0
    manufacturer: str = ""
    product: str = ""

    @property
    def detail(self) -> str:
        """What is noted on the node for people, as JSON; empty when nothing is known."""
        known = {"manufacturer": self.manufacturer, "product": self.product}
        return json.dumps(known, sort_keys=True) if self.product else ""


def cpu_of(node: Obj, *, cpuinfo: Path = Path("/proc/cpuinfo")) -> Cpu:
    """The CPU of a Node object, which is the one this process runs on."""
    facts = _facts(cpuinfo)
    vendor = labels_of(node).get(_NFD_VENDOR) or facts.get("vendor_id") or ""
    manufacturer = _MAKERS.get(vendor.lower(), vendor.lower())
    product = _plain(facts.get("model name") or "")
    return Cpu(gkey(manufacturer, product), _cores(node), manufacturer, product)


_MAKERS = {
    "genuineintel": "intel",
    "authenticamd": "amd",
    "hygongenuine": "hygon",
    "arm": "arm",
}

#: What makers write around a product's name: marks, the word CPU, clock rates, core counts.
_DECORATION = re.compile(r"\((?:R|TM|C)\)|\bCPU\b|@.*$|\b\d+-Core Processor\b", re.IGNORECASE)


def _plain(product: str) -> str:
    return " ".join(_DECORATION.sub(" ", product).split())


def _facts(cpuinfo: Path) -> Mapping[str, str]:
    """The first processor's lines of /proc/cpuinfo."""
    try:
        first = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _cores(node: Obj) -> int:
    capacity = ((node.get("status") or {}).get("capacity") or {}).get("cpu")
    try:
        return quantity(capacity)
    except QuantityError:
        return os.cpu_count() or 1
