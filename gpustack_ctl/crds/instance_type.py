"""`InstanceType`: a pool of alike machines, as a person picks one.

`spec` says what one unit of the pool is and cannot be re-pointed at other hardware later; `status` says how to
reach the pool, whether it takes work, what its hardware can do (`detail`, static) and how much of it is free
(the four views, moving). The strings under `status.printed` exist because a printer column can select a field
but cannot fold several into one.
"""

from gpustack_ctl.crds.definition import Column, Definition
from gpustack_ctl.crds.devices import sliced_detail
from gpustack_ctl.crds.schema import Schema, boolean, integer, moment, one_of, quantity, record, table, text

PHASES = ("Active", "Inactive", "Draining", "Pending", "Deleting")

# Asked at creation only: a type that is stored must stay editable, whatever it was made by.
_ACCELERATOR_GROUP_RULE = {
    "rule": "oldSelf.hasValue() || self.acceleratable == (has(self.acceleratorGroup) && self.acceleratorGroup != '')",
    "optionalOldSelf": True,
    "message": "names the pool's accelerator: set it when acceleratable is true, leave it out otherwise",
    "fieldPath": ".acceleratorGroup",
}


def _processor() -> Schema:
    """What is known of a CPU model; strings throughout, for they are read by people and never counted with."""
    cache = record("Cache sizes.", {level: text(f"Size of the {level} cache.") for level in ("l1i", "l1d", "l2", "l3")})
    return record(
        "The CPU model, in a pool that tells CPU models apart.",
        {
            "manufacturer": text("Manufacturer of the CPU."),
            "product": text("Product name of the CPU."),
            "family": text("Family of the CPU."),
            "physicalCores": text("Physical cores."),
            "threadsPerPhysicalCore": text("Threads of one physical core."),
            "logicalCores": text("Logical cores."),
            "stepping": text("Stepping."),
            "clockSpeed": text("Clock speed."),
            "maxClockSpeed": text("Highest clock speed."),
            "cacheLine": text("Size of a cache line."),
            "cache": cache,
        },
    )


def _descriptors() -> dict[str, Schema]:
    return {
        "manufacturer": text("Company key of the accelerator, or of the CPU in a CPU pool."),
        "product": text("Product name."),
        "family": text("Architecture."),
        "memory": quantity("Memory of one accelerator; what a share of its memory is measured against."),
        "cores": text("Compute cores of one accelerator."),
        "computeCapability": text("Compute capability, where the manufacturer has such a number."),
        "cpu": _processor(),
    }


def _spec() -> Schema:
    unit = record(
        "What one unit gives.",
        {"cpu": quantity("CPU of one unit."), "ram": quantity("Memory of one unit.")},
        required=("cpu", "ram"),
    )
    return record(
        "What one unit of the pool is. Only displayName and inactive change after creation.",
        {
            "displayName": text("Name shown to people.", longest=64),
            "description": text("What the pool is for.", longest=1024),
            "inactive": boolean("Take the pool out of service: running work goes on, nothing new starts."),
            "acceleratable": boolean("Whether a unit is an accelerator."),
            "acceleratorGroup": text("Accelerator key, e.g. nvidia-a10g.", longest=63),
            "generalGroup": text("CPU key, or generic when the pool takes any CPU.", longest=63),
            "os": text("Operating system of the nodes, e.g. linux.", longest=16, pattern="^[a-z0-9]+$"),
            "arch": text("Architecture of the nodes, e.g. amd64.", longest=16, pattern="^[a-z0-9]+$"),
            "unitResources": unit,
            "localStorage": quantity("Local storage of one unit."),
            **_descriptors(),
            "accelerator": record("What goes with the accelerator.", {"cpu": _processor()}),
        },
        required=("acceleratable", "os", "arch", "unitResources", "localStorage"),
        rules=(_ACCELERATOR_GROUP_RULE,),
    )


def _view_fields(what: str) -> dict[str, Schema]:
    return {
        "onceMaxRequest": quantity(f"The most {what} that one request can get now."),
        "remaining": quantity(f"{what.capitalize()} free in the pool."),
        "capacity": quantity(f"{what.capitalize()} in the pool."),
    }


def _partition_counts(description: str) -> Schema:
    row = record(
        "A partition profile and a number of instances.",
        {"name": text("Name of the profile.", longest=63), "count": integer("Number of instances.")},
        required=("name", "count"),
    )
    return table(description, row, keys=("name",))


def _conditions() -> Schema:
    condition = record(
        "One thing that is or is not so.",
        {
            "type": text("What the condition is about: Ready, TopologyReady.", longest=316),
            "status": one_of("Whether it is so.", ("True", "False", "Unknown")),
            "reason": text("The cause in one CamelCase word.", longest=1024),
            "message": text("The cause in a sentence.", longest=32768),
            "lastTransitionTime": moment("When the status last changed."),
            "observedGeneration": integer("The generation of the spec that was judged."),
        },
        required=("type", "status"),
    )
    return table("What holds for the pool now.", condition, keys=("type",))


def _status() -> Schema:
    partitioned = {
        **_view_fields("partitions"),
        "allocatedProfiles": _partition_counts("Instances held, by profile."),
        "remainingProfiles": _partition_counts("Instances that still fit, for every profile on offer, also at zero."),
    }
    printed = record(
        "What the columns of kubectl get show.",
        {
            "unit": text("CPU/RAM/storage of one unit."),
            "accelerator": text("onceMaxRequest/remaining of exclusive, shared, sliced and partitioned."),
            "cpu": text("onceMaxRequest/remaining of CPU."),
            "partitions": text("Instances that still fit, profile by profile."),
        },
    )
    slicing = sliced_detail("The slicing catalog of the pool's accelerators; it does not move as they are taken.")
    return record(
        "How to reach the pool, what it is made of and what is free.",
        {
            "entrance": text("Value of the label kueue.x-k8s.io/queue-name that sends work to this pool."),
            "phase": one_of("Whether the pool takes work.", PHASES),
            "phaseMessage": text("Why the pool is in this phase."),
            "conditions": _conditions(),
            "detail": record(
                "What the pool's hardware is. Written whole: a manufacturer here means that all of it is current.",
                {**_descriptors(), "slicedDetail": slicing},
            ),
            "accelerator": record("Whole accelerators.", _view_fields("accelerators")),
            "acceleratorShared": record("Shares, ten to an accelerator.", _view_fields("shares")),
            "acceleratorSliced": record("Slices, in percent of an accelerator's memory.", _view_fields("percent")),
            "acceleratorPartitioned": record("Hardware partitions.", partitioned),
            "cpu": record("CPU cores.", _view_fields("cores")),
            "printed": printed,
        },
    )


INSTANCE_TYPE = Definition(
    group="worker.gpustack.ai",
    kind="InstanceType",
    plural="instancetypes",
    singular="instancetype",
    short_names=("instype",),
    storage="v1alpha1",
    served=("v1alpha1", "v1"),
    schema=record(
        "A pool of alike machines and the unit in which it is handed out.",
        {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _spec(),
            "status": _status(),
        },
        required=("spec",),
    ),
    columns=(
        Column("Entrance", ".status.entrance"),
        Column("Unit(CPU/RAM)/Storage", ".status.printed.unit"),
        Column("Accelerator(EX/SH/SL/PT)", ".status.printed.accelerator"),
        Column("CPU", ".status.printed.cpu"),
        Column("Phase", ".status.phase"),
        Column("Partitions", ".status.printed.partitions", wide=True),
    ),
)
