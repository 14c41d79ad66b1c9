"""The time as Kubernetes writes it."""

from datetime import UTC, datetime


def now() -> str:
    """Now, to the second: the precision of `metav1.Time`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
