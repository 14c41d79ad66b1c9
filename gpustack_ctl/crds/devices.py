"""`Devices`: what the accelerators of one node can do, and who holds them.

One object per node, named after it. `spec` is capability and belongs to the node agent's detector; `status` is
the ledger, rebuilt from the Pods bound to the node. Both are tables of groups (one per accelerator model) of
accelerators, so that a reader joins a card's capability with its occupancy by key and never by position.
"""

from gpustack_ctl.accel.units import M
from gpustack_ctl.crds.definition import Column, Definition
from gpustack_ctl.crds.schema import Schema, boolean, integer, record, sequence, table, text

_GROUP_KEYS = ("id", "manufacturer")


def _group_identity() -> dict[str, Schema]:
    return {
        "id": text(
            "Model of the group's accelerators; with the manufacturer in front it is the accelerator key.",
            longest=63,
            pattern=r"^[a-z0-9.]+(-[a-z0-9.]+)*$",
        ),
        "manufacturer": text("Lower-case company key, e.g. nvidia.", longest=16, pattern="^[a-z0-9]+$"),
    }


def _profile_counts(description: str) -> Schema:
    row = record("A partition profile and a number of instances.", _profile_count_fields(), required=("name", "count"))
    return table(description, row, keys=("name",))


def _profile_count_fields() -> dict[str, Schema]:
    return {
        "name": text("Profile as the manufacturer's tools print it, e.g. 3g.40gb.", longest=63),
        "count": integer("Number of instances."),
    }


def logical_slicing() -> Schema:
    return record(
        "Slicing by the runtime: several containers share the accelerator's memory and compute.",
        {
            "count": integer("Slices one accelerator can hold; 0 when it cannot be sliced or is partitioned."),
            "coresPercentageOvercommit": boolean("Whether the slices' compute shares may add up to more than 100 %."),
        },
    )


def _placement() -> Schema:
    return record(
        "An interval of memory slices that an instance may occupy.",
        {"start": integer("First memory slice."), "length": integer("Number of memory slices.", least=1)},
        required=("start", "length"),
    )


def _physical_slicing() -> Schema:
    profile = record(
        "A partition that the accelerator can be cut into.",
        {
            "name": text("Profile as the manufacturer's tools print it, e.g. 3g.40gb.", longest=63),
            "memoryMib": integer("Memory of one instance in MiB."),
            "computeSlices": integer("Compute slices of one instance."),
            "memorySlices": integer("Memory slices of one instance."),
            "count": integer("Instances that fit on an empty accelerator."),
            "placements": sequence("Where an instance may start; instances never overlap.", _placement()),
        },
        required=("name",),
    )
    return record(
        "Hardware partitioning; empty on an accelerator that is not partitioned.",
        {
            "count": integer("Most instances one accelerator can hold; more than 0 means that it is partitioned."),
            "profiles": table("The partitions on offer.", profile, keys=("name",)),
        },
    )


def sliced_detail(description: str) -> Schema:
    """The slicing catalog of a group: the same shape summarises a node's cards here and a pool's in an InstanceType."""
    profile = record(
        "A partition that the group offers.",
        {**_profile_count_fields(), "memoryMib": integer("Memory of one instance in MiB.")},
        required=("name",),
    )
    physical = record(
        "Hardware partitioning over the group.",
        {
            "count": integer("Most instances the accelerators can hold."),
            "profiles": table("The partitions on offer.", profile, keys=("name",)),
        },
    )
    return record(description, {"logical": logical_slicing(), "physical": physical})


def _accelerator() -> Schema:
    topology = record(
        "Where the accelerator sits in the machine.",
        {
            "pciBusId": text("PCI address, e.g. 0000:3b:00.0."),
            "pciRootId": text("PCI root complex."),
            "pciClass": text("PCI class code."),
            "numaAffinity": text("NUMA nodes, as a list such as 0 or 0-1."),
            "cpuAffinity": text("CPUs close to the accelerator, as a list such as 0-31."),
        },
    )
    status = record(
        "What the accelerator can do now.",
        {
            "unhealthy": boolean("Set when no new allocation may use the accelerator."),
            "logicalSliced": logical_slicing(),
            "physicalSliced": _physical_slicing(),
        },
    )
    return record(
        "One physical accelerator.",
        {
            "id": text("Globally unique id, e.g. GPU-….", longest=253),
            "index": integer("Index on the node, in the driver's order."),
            "physicalIndexes": sequence(
                "Indexes by which the driver knows the dies of this accelerator.", integer("Index.")
            ),
            "topology": topology,
            "status": status,
        },
        required=("id", "index"),
    )


def _spec() -> Schema:
    group = record(
        "The accelerators of one model.",
        {
            **_group_identity(),
            "name": text("Product name as the driver reports it."),
            "memory": integer("Memory of one accelerator in MiB."),
            "cores": integer("Compute cores of one accelerator."),
            "driverVersion": text("Version of the driver."),
            "runtimeVersion": text("Version of the compute runtime."),
            "computeCapability": text("Compute capability, where the manufacturer has such a number."),
            "family": text("Architecture, e.g. Ampere."),
            "accelerators": table("The accelerators.", _accelerator(), keys=("id",)),
            "acceleratorSlicedDetail": sliced_detail("The slicing catalog over the group."),
        },
        required=(*_GROUP_KEYS, "memory", "accelerators"),
    )
    return record(
        "Capability, written by the node agent.",
        {"groups": table("One group per accelerator model.", group, keys=_GROUP_KEYS)},
    )


def _status() -> Schema:
    row = record(
        "Who holds one accelerator, in total.",
        {
            "id": text("Id of the accelerator in spec.", longest=253),
            "index": integer("Index of the accelerator in spec."),
            "mode": integer("0 none, 1 exclusive, 2 shared, 3 sliced, 4 partitioned.", most=4),
            "allocated": integer(f"Units held; {M} units are one whole accelerator.", most=M),
            "remaining": integer(f"Units free; {M} units are one whole accelerator.", most=M),
            "allocatedSlices": integer("Logical slices held, one per container."),
            "allocatedProfiles": _profile_counts("Partition instances held."),
            "remainingProfiles": _profile_counts("Partition instances that still fit, profile by profile."),
        },
        required=("id", "index", "mode", "allocated", "remaining"),
    )
    group = record(
        "The ledger rows of one model.",
        {**_group_identity(), "accelerators": table("One row per accelerator.", row, keys=("id",))},
        required=_GROUP_KEYS,
    )
    return record(
        "Occupancy: the ledger, rebuilt from the Pods bound to the node.",
        {"groups": table("One group per accelerator model.", group, keys=_GROUP_KEYS)},
    )


DEVICES = Definition(
    group="worker.gpustack.ai",
    kind="Devices",
    plural="devices",
    singular="devices",
    storage="v1alpha1",
    served=("v1alpha1", "v1"),
    schema=record(
        "The accelerators of one node: what they can do, and who holds them.",
        {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _spec(),
            "status": _status(),
        },
    ),
    columns=(Column("Age", ".metadata.creationTimestamp", type="date"),),
)
