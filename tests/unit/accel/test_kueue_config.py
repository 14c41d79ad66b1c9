import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.kueue_config import choices, kueue_configuration

TABLE = manufacturers()


def prices(key: str) -> dict[str, str]:
    """What Kueue charges for one of `key`; nothing for a key that is not transformed."""
    listed = kueue_configuration(TABLE)["resources"]["transformations"]
    found = [transformation["outputs"] for transformation in listed if transformation["input"] == key]
    assert len(found) <= 1, f"{key} is transformed twice"
    return found[0] if found else {}


@pytest.mark.parametrize(("suffix", "price"), [("", "1600000"), (".shared", "160000"), (".sliced.units", "1")])
@pytest.mark.parametrize(("key", "base"), [(row.key, row.base) for row in TABLE.by_key.values()])
def test_every_manufacturer_is_charged_in_its_own_credits(key: str, base: str, suffix: str, price: str):
    assert prices(base + suffix) == {f"credits.gpustack.ai/{key}": price}


@pytest.mark.parametrize(
    "key",
    [
        "sliced",
        "sliced.memory-percentage",
        "sliced.memory-mib",
        "sliced.cores-percentage",
        "partitioned",
        "partitioned.mig-1g.10gb",
    ],
)
def test_what_only_shapes_a_request_costs_nothing(key: str):
    assert prices(f"nvidia.com/gpu.{key}") == {}


def test_a_vendors_own_spelling_is_charged():
    table = manufacturers({"GPUSTACK_NVIDIA_ACCELERATABLE_RESOURCE_NAME": "example.com/gpu"})
    inputs = [entry["input"] for entry in kueue_configuration(table)["resources"]["transformations"]]
    assert "example.com/gpu.sliced.units" in inputs
    assert "nvidia.com/gpu" not in inputs


def test_pods_and_jobs_are_managed_and_queue_names_stay_off_the_labels():
    configuration = kueue_configuration(TABLE)
    assert configuration["integrations"]["frameworks"] == ["batch/job", "pod"]
    assert configuration["featureGates"] == {"AssignQueueLabelsForPods": False, "TopologyAwareScheduling": True}
    assert configuration["resources"]["quotaCheckStrategy"] == "IgnoreUndeclared"


def test_everything_that_is_set_says_why():
    assert all(choice.reason for choice in choices(TABLE))
