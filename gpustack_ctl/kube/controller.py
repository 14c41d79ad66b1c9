"""A controller: what wakes it, and one reconcile."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import anyio
from anyio.abc import TaskStatus

from gpustack_ctl.kube.informer import Informer
from gpustack_ctl.kube.objects import Obj, key_of


@dataclass(frozen=True, slots=True)
class Result:
    after: float | None = None


DONE = Result()


def again(seconds: float) -> Result:
    """Nothing failed; look at this key again after so many seconds."""
    return Result(after=seconds)


@dataclass(frozen=True, slots=True)
class Wake:
    """Changes of one informer, and the keys that each makes worth a look."""

    informer: Informer
    keys: Callable[[Obj | None, Obj | None], Iterable[str]]


def changes(
    informer: Informer,
    *,
    key: Callable[[Obj], str | Iterable[str]] = key_of,
    when: Callable[[Obj | None, Obj | None], bool] | None = None,
) -> Wake:
    """Wake the key(s) of the old and the new object on every change, or only when `when(old, new)`."""
    raise NotImplementedError


class Controller(ABC):
    name: ClassVar[str]
    workers: ClassVar[int] = 1

    @abstractmethod
    def wakes(self) -> Iterable[Wake]: ...

    @abstractmethod
    async def reconcile(self, key: str) -> Result: ...

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        raise NotImplementedError
