"""Moments, as Kubernetes writes them."""

from datetime import UTC, datetime


def micro_time() -> str:
    """Now, as a MicroTime: what Leases and Events carry."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
