"""Events on the objects a user looks at."""

from typing import Literal

from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj


class Events:
    def __init__(self, kube: Kube, component: str) -> None:
        raise NotImplementedError

    def emit(
        self,
        obj: Obj,
        *,
        reason: str,
        message: str,
        action: str,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002
    ) -> None:
        """Tell of something on `obj` (an object with apiVersion and kind, or an object reference). Never blocks or fails."""
        raise NotImplementedError

    async def run(self) -> None:
        raise NotImplementedError
