"""`Setting`: one switch of the system, named after itself, read at every use.

The table below is the whole list. The API server itself refuses a name that is not in it and a value that is
not a truth value, so a typing error is answered where it is made instead of being a setting that nobody reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.crds.definition import Column, Definition
from gpustack_ctl.crds.schema import Schema, record, text


@dataclass(frozen=True, slots=True)
class Switch:
    """A setting that is on or off."""

    name: str
    default: bool
    description: str


WORKLOAD_FIT_AFFINITY = "workload-fit-affinity"
NODE_MANAGEMENT_MANUAL = "node-management-manual"
MIXED_ON_NODE = "instance-type-mixed-on-node"
DERIVED_FROM_NODE = "instance-type-derived-from-node"
DRAIN_WHEN_NO_FLAVORS = "instance-type-drain-when-no-flavors"
AWARE_CPU_MANUFACTURER = "instance-type-aware-cpu-manufacturer"

SWITCHES = (
    Switch(WORKLOAD_FIT_AFFINITY, True, "Keep Workloads to the nodes whose cards have room for them."),
    Switch(NODE_MANAGEMENT_MANUAL, False, "Manage only the nodes that a person has labelled."),
    Switch(MIXED_ON_NODE, True, "Let a node with accelerators also serve CPU-only pools."),
    Switch(DERIVED_FROM_NODE, True, "Make an InstanceType for every kind of node that appears."),
    Switch(DRAIN_WHEN_NO_FLAVORS, True, "Drain a pool whose last flavor is gone."),
    Switch(AWARE_CPU_MANUFACTURER, False, "Tell pools apart by CPU model."),
    Switch("instance-general-resources-overcommit", True, "Let Instances overcommit CPU and memory."),
    Switch("instance-privileged-allowed", False, "Let Instances run privileged."),
    Switch("instance-host-path-volume-allowed", False, "Let Instances mount paths of the host."),
    Switch(
        "model-deployment-kv-cache-dtype-owned", True, "Let a ModelDeployment's pool decide the KV cache's data type."
    ),
)

_DEFAULTS = {switch.name: switch.default for switch in SWITCHES}
_TRUTH = {"true": True, "false": False}


def is_on(name: str, stored: Mapping[str, Any] | None) -> bool:
    """Whether the switch of that name is on, by the stored Setting; by its default where none is stored.

    What is stored was checked by the API server when it was written; a value that is neither true nor false can only
    come from a hand that went around it, and counts as not stored.
    """
    value = str(stored["spec"].get("value")) if stored is not None else ""
    return _TRUTH.get(value, _DEFAULTS[name])


_NAMES = ", ".join(switch.name for switch in SWITCHES)
_CEL_NAMES = ", ".join(f"'{switch.name}'" for switch in SWITCHES)

_KNOWN_NAME = {
    "rule": f"self.metadata.name in [{_CEL_NAMES}]",
    "messageExpression": f"'no setting is named ' + self.metadata.name + '; the settings are {_NAMES}'",
}
_TRUTH_VALUE = {
    "rule": f"!(self.metadata.name in [{_CEL_NAMES}]) || self.spec.value in ['true', 'false']",
    "messageExpression": """'write "true" or "false" for ' + self.metadata.name + ', not "' + self.spec.value + '"'""",
    "fieldPath": ".spec.value",
}


def _schema() -> Schema:
    return record(
        "One switch of the system.",
        {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": record(
                "What was chosen.",
                {"value": text('The value, as a string: "true" or "false".', longest=256)},
                required=("value",),
            ),
            "status": record(
                "What the setting is.",
                {
                    "default": text("The value while nobody has chosen one."),
                    "description": text("What the setting does."),
                },
            ),
        },
        required=("spec",),
        rules=(_KNOWN_NAME, _TRUTH_VALUE),
    )


SETTING = Definition(
    group="gpustack.ai",
    kind="Setting",
    plural="settings",
    singular="setting",
    short_names=("set",),
    storage="v1",
    served=("v1",),
    schema=_schema(),
    columns=(
        Column("Value", ".spec.value"),
        Column("Default", ".status.default"),
        Column("Description", ".status.description", wide=True),
    ),
)
