"""The values file with which Kueue's chart is installed, made from the configuration that the gates need.

Every field carries its reason as a comment: whoever merges it into values of their own sees what they would give up.
"""

import textwrap

import yaml

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.kueue_config import Choice, choices, kueue_configuration

_HEADER = """\
# Values for Kueue's chart (oci://registry.k8s.io/kueue/charts/kueue).
# Made by `just generate` from gpustack_ctl/accel/kueue_config.py; change it there.
managerConfig:
  controllerManagerConfigYaml: |-
"""


def kueue_values(table: Manufacturers) -> str:
    """The file's content."""
    configuration = kueue_configuration(table)
    head = {field: configuration[field] for field in ("apiVersion", "kind")}
    parts = [_dump(head), *(_commented(choice) for choice in choices(table))]
    return _HEADER + textwrap.indent("\n".join(parts), "    ")


def _commented(choice: Choice) -> str:
    reason = textwrap.fill(choice.reason, width=110, initial_indent="# ", subsequent_indent="# ")
    return f"{reason}\n{_dump({choice.field: choice.value})}"


def _dump(value: dict[str, object]) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=120)
