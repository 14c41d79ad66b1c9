"""A resource and its CustomResourceDefinition.

All served versions share one schema and need no conversion: a second version is a promise about stability, not
another shape. So a resource is described once, and the definition repeats that description for each version.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.crds.schema import Schema

CATEGORY = "gpustack"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; a wide one shows only with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False

    def as_printed(self) -> dict[str, Any]:
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.wide:
            column["priority"] = 1
        return column


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What the API server is told about one of our kinds, all of them cluster-scoped with a status subresource."""

    group: str
    kind: str
    plural: str
    singular: str
    storage: str
    served: tuple[str, ...]
    schema: Schema
    short_names: Sequence[str] = ()
    columns: Sequence[Column] = ()

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"

    def manifest(self) -> dict[str, Any]:
        names: dict[str, Any] = {
            "kind": self.kind,
            "listKind": f"{self.kind}List",
            "plural": self.plural,
            "singular": self.singular,
            "categories": [CATEGORY],
        }
        if self.short_names:
            names["shortNames"] = list(self.short_names)
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": self.group,
                "scope": "Cluster",
                "names": names,
                "conversion": {"strategy": "None"},
                "versions": [self._version(name) for name in self.served],
            },
        }

    def _version(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "served": True,
            "storage": name == self.storage,
            "subresources": {"status": {}},
            "additionalPrinterColumns": [column.as_printed() for column in self.columns],
            "schema": {"openAPIV3Schema": deepcopy(self.schema)},
        }
