"""Moments, as Kubernetes writes them."""

from datetime import UTC, datetime


def now() -> str:
    """Now, to the second: the precision of `metav1.Time`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time() -> str:
    """Now, as a MicroTime: what Leases and Events carry."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_since(moment: str, now: datetime) -> float:
    """Seconds from a moment as Kubernetes writes it until now; none where it cannot be read."""
    try:
        return (now - datetime.fromisoformat(moment)).total_seconds()
    except (TypeError, ValueError):
        return 0.0
