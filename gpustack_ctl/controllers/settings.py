"""The system's settings, read at every use, so that a change needs no restart."""

from collections.abc import Callable, Iterable

from gpustack_ctl.crds.setting import is_on
from gpustack_ctl.kube.controller import Wake
from gpustack_ctl.kube.informer import Informer


class Settings:
    """The switches as they stand now."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer

    def on(self, name: str) -> bool:
        """Whether the switch of that name is on."""
        return is_on(name, self._informer.get(name))

    def wake(self, *names: str, keys: Callable[[], Iterable[str]]) -> Wake:
        """Wake `keys()` whenever one of these switches is changed."""
        return Wake(self._informer, lambda old, new: keys() if (new or old or {})["metadata"]["name"] in names else ())
