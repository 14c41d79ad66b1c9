"""What a local cluster can fail with: always a plain message, and always what to do about it."""


class LocalClusterError(Exception):
    """The local cluster cannot do what was asked; ``remedy`` says what would change that."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


def first_error(error: BaseException) -> LocalClusterError | None:
    """The local cluster's error inside whatever a task group raised, if it holds one."""
    if isinstance(error, LocalClusterError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(first_error, error.exceptions)), None)
    return None
