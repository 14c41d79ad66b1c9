"""The copy of a resource that an informer keeps: objects by key, named indexes, and who is told of changes.

No input or output happens here. Three sources write to it (a full list, the watch, and the answers to our own writes)
and they overlap in time, so every write is ordered by resourceVersion: the newer wins, whichever came first. `version`
is how far the watch has told us everything; what is newer than it and not told yet can only be a write of our own.

Objects inside are shared by every reader and are not to be changed.
"""

from collections import deque
from collections.abc import Callable, Iterable

import structlog

from gpustack_ctl.kube.objects import Obj, Objs, key_of, version_of

Handler = Callable[[Obj | None, Obj | None], None]
Transform = Callable[[Obj], Obj]
IndexOf = Callable[[Obj], Iterable[str]]

_log = structlog.get_logger()


class Store:
    """The objects of one selection; `partial` says that more objects exist than it selects."""

    def __init__(self, *, keep: Transform | None = None, partial: bool = False) -> None:
        self.version = 0
        self._partial = partial
        self._keep = keep
        self._objects: dict[str, Obj] = {}
        self._indexes: dict[str, _Index] = {}
        self._handlers: tuple[Handler, ...] = ()
        self._untold: deque[tuple[Obj | None, Obj | None, tuple[Handler, ...]]] = deque()
        self._telling = False

    # Reading

    def get(self, key: str) -> Obj | None:
        """The object with that key (``namespace/name``, or ``name`` when cluster-scoped)."""
        return self._objects.get(key)

    def list(self) -> Objs:
        return [*self._objects.values()]

    def __len__(self) -> int:
        return len(self._objects)

    def add_index(self, name: str, of: IndexOf) -> None:
        """Keep objects findable by the values `of` gives them.

        May be added at any time. The same function under the same name changes nothing; another one is a ValueError.
        """
        known = self._indexes.get(name)
        if known is not None:
            if known.of != of:
                raise ValueError(f"there is another index {name!r} already")
            return
        index = self._indexes[name] = _Index(name, of)
        for key, obj in self._objects.items():
            index.put(key, obj)

    def by_index(self, name: str, value: str) -> Objs:
        """The objects to which index `name` gives `value`."""
        return [*self._indexes[name].objects.get(value, {}).values()]

    def subscribe(self, handler: Handler) -> Callable[[], None]:
        """Call `handler(old, new)` for every change, in order; None stands for absent.

        What is already there is told first, as ``(None, obj)``. Handlers run inside the watch: they are quick and do
        not wait. One that fails is logged, and the others are still told. The returned function ends the subscription.
        """
        for obj in self.list():
            _call(handler, None, obj)
        self._handlers = (*self._handlers, handler)
        return lambda: self._unsubscribe(handler)

    def _unsubscribe(self, handler: Handler) -> None:
        self._handlers = tuple(other for other in self._handlers if other is not handler)

    # Writing

    def kept(self, obj: Obj) -> Obj:
        """What this store keeps of an object that came from the server: what `keep` leaves of it, and never its
        managedFields, which nobody here reads and which can be half of it. What it has already it keeps, not twice."""
        held = self._objects.get(key_of(obj))
        if held is not None and version_of(held) == version_of(obj):
            return held
        if "managedFields" in obj["metadata"]:
            metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
            obj = obj | {"metadata": metadata}
        if self._keep is None:
            return obj
        try:
            return self._keep(obj)
        except Exception:  # noqa: BLE001 — one odd object must not end the watch
            _log.exception("an object could not be slimmed and is kept whole", object=key_of(obj))
            return obj

    def replace(self, objects: Iterable[Obj], version: int) -> None:
        """Become what a full list at `version` says, and tell exactly the differences.

        Everything is in place before the first handler is told, departures first: nobody sees a moment in which an
        object's successor is there and the object is too. `objects` went through `kept` already, as they came in, so
        that a long list never lies in memory whole.
        """
        listed = {key_of(obj): obj for obj in objects}
        self.version = max(self.version, version)
        gone = [key for key, obj in self._objects.items() if key not in listed and version_of(obj) <= version]
        for key in gone:
            self._drop(key)
        for key, obj in listed.items():
            self._put(key, obj)
        self._tell()

    def put(self, obj: Obj) -> None:
        """The watch says that `obj` was added or changed."""
        self.version = max(self.version, version_of(obj))
        self._put(key_of(obj), self.kept(obj))
        self._tell()

    def remove(self, obj: Obj) -> None:
        """The watch says that `obj` is gone, or selected no more; its version is that of its going."""
        self.version = max(self.version, version_of(obj))
        key = key_of(obj)
        held = self._objects.get(key)
        if held is None or version_of(held) > version_of(obj):
            return  # a successor of that name, written by ourselves, is here before the news of the removal
        self._drop(key)
        self._tell()

    def advance(self, version: int) -> None:
        """A bookmark: nothing that we were not told of happened up to `version`."""
        self.version = max(self.version, version)

    def observe(self, obj: Obj) -> None:
        """Take the server's answer to our own write, ahead of the watch, so that the next decision sees it.

        An answer that the watch has overtaken already is no news; if its object is not here then, it has been deleted
        since. In a partial store only what is here is updated: an unknown object may not be selected at all, and then
        no watch would ever tell of its end.
        """
        key = key_of(obj)
        held = self._objects.get(key)
        if held is None and (self._partial or version_of(obj) <= self.version):
            return
        self._put(key, self.kept(obj))
        self._tell()

    def _put(self, key: str, new: Obj) -> None:
        old = self._objects.get(key)
        if old is not None and version_of(old) >= version_of(new):
            return
        self._objects[key] = new
        for index in self._indexes.values():
            index.put(key, new)
        self._untold.append((old, new, self._handlers))

    def _drop(self, key: str) -> None:
        old = self._objects.pop(key)
        for index in self._indexes.values():
            index.drop(key)
        self._untold.append((old, None, self._handlers))

    def _tell(self) -> None:
        if self._telling:
            return  # a handler wrote to this store; its change is told after the one being told now
        self._telling = True
        try:
            while self._untold:
                old, new, handlers = self._untold.popleft()
                for handler in handlers:
                    _call(handler, old, new)
        finally:
            self._telling = False


class _Index:
    """Objects by the values that one function gives them. The values are remembered, not computed again on removal."""

    def __init__(self, name: str, of: IndexOf) -> None:
        self.name = name
        self.of = of
        self.objects: dict[str, dict[str, Obj]] = {}
        self._values: dict[str, tuple[str, ...]] = {}

    def put(self, key: str, obj: Obj) -> None:
        values = self._values_of(key, obj)
        if values != self._values.get(key):
            self.drop(key)
        if not values:
            return
        self._values[key] = values
        for value in values:
            self.objects.setdefault(value, {})[key] = obj

    def drop(self, key: str) -> None:
        for value in self._values.pop(key, ()):
            objects = self.objects[value]
            del objects[key]
            if not objects:
                del self.objects[value]

    def _values_of(self, key: str, obj: Obj) -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(self.of(obj)))
        except Exception:  # noqa: BLE001 — one odd object must not end the watch
            _log.exception("an object could not be indexed and will not be found by it", index=self.name, object=key)
            return ()


def _call(handler: Handler, old: Obj | None, new: Obj | None) -> None:
    try:
        handler(old, new)
    except Exception:  # noqa: BLE001 — one subscriber's fault must not end the watch of all
        _log.exception("a handler of changes failed", object=key_of(new or old or {}))
