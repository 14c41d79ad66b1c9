"""The files by which Kueue is installed, made from the configuration that the gates need: values for its chart, and the
Configuration alone for whoever installs it from manifests.

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
_PLAIN_HEADER = """\
# Kueue's Configuration: the content of controller_manager_config.yaml in the ConfigMap kueue-manager-config.
# Made by `just generate` from gpustack_ctl/accel/kueue_config.py; change it there.
"""


def files(table: Manufacturers) -> dict[str, str]:
    """Every file by its name."""
    return {"values.yaml": kueue_values(table), "configuration.yaml": _PLAIN_HEADER + _configuration(table)}


def kueue_values(table: Manufacturers) -> str:
    """The values for Kueue's chart."""
    return _HEADER + textwrap.indent(_configuration(table), "    ")


def _configuration(table: Manufacturers) -> str:
    configuration = kueue_configuration(table)
    head = {field: configuration[field] for field in ("apiVersion", "kind")}
    return "\n".join([_dump(head), *(_commented(choice) for choice in choices(table))])


def _commented(choice: Choice) -> str:
    reason = textwrap.fill(choice.reason, width=110, initial_indent="# ", subsequent_indent="# ")
    return f"{reason}\n{_dump({choice.field: choice.value})}"


def _dump(value: dict[str, object]) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=120)
