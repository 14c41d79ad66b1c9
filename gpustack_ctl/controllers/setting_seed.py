"""Setting seeds: what the environment says of a switch, stored once, and what each stored Setting is about.

An installation can choose its settings before there is a cluster to keep them: a variable `GPUSTACK_<NAME>` becomes the
Setting of that name. From then on the stored value is what counts, and it is never overwritten. The API server judges a
value that comes from the environment as it judges any other; one that it refuses is logged, and the default holds.

Owns `Setting.status`, which tells a reader of `kubectl get settings` the default and the meaning.

Woken by Settings, and once at start for every switch.
"""

from collections.abc import Iterable, Mapping

import structlog

from gpustack_ctl.controllers.writes import part_of, settle
from gpustack_ctl.crds.setting import SWITCHES, Switch
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.controller import DONE, Controller, Result, Wake, changes
from gpustack_ctl.kube.errors import AlreadyExists, Invalid
from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.resources import SETTINGS

log = structlog.get_logger()

MANAGER = "gpustack-setting-seed"

_SWITCHES = {switch.name: switch for switch in SWITCHES}


class SettingSeed(Controller):
    """Keys are names of settings."""

    name = "setting-seed"

    def __init__(self, *, kube: Kube, settings: Informer, environ: Mapping[str, str]) -> None:
        self._kube = kube
        self._settings = settings
        self._seeds = {switch.name: value for switch in SWITCHES if (value := environ.get(variable(switch.name)))}

    def wakes(self) -> Iterable[Wake]:
        for name in self._seeds:
            self.queue.add(name)
        yield changes(self._settings)

    async def reconcile(self, key: str) -> Result:
        switch = _SWITCHES.get(key)
        if switch is None:
            return DONE
        stored = self._settings.get(key)
        if stored is None:
            await self._seed(switch)
            return DONE
        self._seeds.pop(key, None)
        wanted = part_of(stored)
        wanted["status"] = {"default": str(switch.default).lower(), "description": switch.description}
        await settle(self._kube, self._settings, wanted, manager=MANAGER, subresource="status")
        return DONE

    async def _seed(self, switch: Switch) -> None:
        """Store the environment's value, unless it was stored before: whoever deletes the Setting wants the default."""
        value = self._seeds.get(switch.name)
        if value is None:
            return
        try:
            made = await self._kube.create(SETTINGS, {"metadata": {"name": switch.name}, "spec": {"value": value}})
            self._settings.observe(made)
            log.info("stored a setting from the environment", setting=switch.name, value=value)
        except AlreadyExists:
            pass
        except Invalid as refusal:
            log.warning("a setting in the environment was refused", variable=variable(switch.name), cause=str(refusal))
        del self._seeds[switch.name]


def variable(name: str) -> str:
    """The environment variable that seeds a setting."""
    return f"GPUSTACK_{name.upper().replace('-', '_')}"
