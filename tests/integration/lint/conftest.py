"""A cluster with a pool and its webhooks, as the webhooks' tests have it."""

from tests.integration.webhooks.conftest import kube, pool, replica

__all__ = ["kube", "pool", "replica"]
