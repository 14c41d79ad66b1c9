"""Nodes and pools as the controllers' tests have them."""

from tests.integration.controllers.conftest import kube, stage

__all__ = ["kube", "stage"]
