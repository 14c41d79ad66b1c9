"""A controller's work queue."""


class Closed(Exception):
    """The queue was closed; there is no more work."""


class WorkQueue:
    def __init__(self, name: str) -> None:
        raise NotImplementedError

    def add(self, key: str) -> None:
        raise NotImplementedError

    def add_after(self, key: str, seconds: float) -> None:
        raise NotImplementedError

    def add_backoff(self, key: str) -> float:
        """Add after this key's own backoff; returns the seconds it will wait."""
        raise NotImplementedError

    def forget(self, key: str) -> None:
        raise NotImplementedError

    async def get(self) -> str:
        """The next key; the caller must say `done` to it. Raises Closed."""
        raise NotImplementedError

    def done(self, key: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError
