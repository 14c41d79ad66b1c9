"""Our custom resources, as the API server is told of them.

The schemas are written here once and everything else is made from them: the definitions that the manager
applies, those that `gpustack-ctl crds` prints and the files under deploy/crds. None of it is edited by hand, so
none of it can disagree.
"""

from pathlib import Path
from typing import Any

import yaml

from gpustack_ctl.crds.definition import Definition
from gpustack_ctl.crds.devices import DEVICES
from gpustack_ctl.crds.instance_type import INSTANCE_TYPE
from gpustack_ctl.crds.setting import SETTING

__all__ = ["DEFINITIONS", "all", "as_yaml", "files", "write"]

DEFINITIONS: tuple[Definition, ...] = (DEVICES, INSTANCE_TYPE, SETTING)

_HEADER = "# Made by `just generate` from gpustack_ctl/crds; change it there.\n"


def all() -> list[dict[str, Any]]:  # noqa: A001 - read as crds.all()
    """Every CustomResourceDefinition, ready to be applied. The caller owns what it gets."""
    return [definition.manifest() for definition in DEFINITIONS]


def as_yaml(manifest: dict[str, Any]) -> str:
    return yaml.dump(manifest, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)


def files() -> dict[str, str]:
    """The files of deploy/crds: name to content."""
    return {
        f"{definition.group}_{definition.plural}.yaml": _HEADER + as_yaml(definition.manifest())
        for definition in DEFINITIONS
    }


def write(directory: Path) -> None:
    """Write `files()` into a directory, which is made when it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (directory / name).write_text(content, encoding="utf-8")


class _Plain(yaml.SafeDumper):
    """Repeats a value that occurs twice: an anchor saves bytes and costs the reader a search."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class asks about each value
        return True
