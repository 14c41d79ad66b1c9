"""The system's settings, read at every use, so that a change needs no restart.

A setting that nobody has stored has its default. What is stored was checked by the API server when it was written; a
value that is neither true nor false can only come from a hand that went around it, and counts as not stored.
"""

from collections.abc import Callable, Iterable

from gpustack_ctl.crds.setting import SWITCHES
from gpustack_ctl.kube.controller import Wake
from gpustack_ctl.kube.informer import Informer

WORKLOAD_FIT_AFFINITY = "workload-fit-affinity"
NODE_MANAGEMENT_MANUAL = "node-management-manual"
MIXED_ON_NODE = "instance-type-mixed-on-node"
DERIVED_FROM_NODE = "instance-type-derived-from-node"
DRAIN_WHEN_NO_FLAVORS = "instance-type-drain-when-no-flavors"
AWARE_CPU_MANUFACTURER = "instance-type-aware-cpu-manufacturer"

_DEFAULTS = {switch.name: switch.default for switch in SWITCHES}
_TRUTH = {"true": True, "false": False}


class Settings:
    """The switches as they stand now."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer

    def on(self, name: str) -> bool:
        """Whether the switch of that name is on."""
        stored = self._informer.get(name)
        value = str(stored["spec"].get("value")) if stored is not None else ""
        return _TRUTH.get(value, _DEFAULTS[name])

    def wake(self, *names: str, keys: Callable[[], Iterable[str]]) -> Wake:
        """Wake `keys()` whenever one of these switches is changed."""
        return Wake(self._informer, lambda old, new: keys() if (new or old or {})["metadata"]["name"] in names else ())
