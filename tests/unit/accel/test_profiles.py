"""Topology profiles: which levels a node fills."""

import pytest

from gpustack_ctl.accel.naming import fnv64
from gpustack_ctl.accel.profiles import TopologyProfile, read_levels, topology, topology_profile

REGION, ZONE, RACK, HOST = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.gpustack.ai/rack",
    "kubernetes.io/hostname",
)
LEVELS = (REGION, ZONE, RACK)


@pytest.mark.parametrize(
    ("filled", "levels"),
    [
        ({}, (HOST,)),
        ({REGION: "eu"}, (REGION, HOST)),
        ({REGION: "eu", ZONE: "a", RACK: "r1"}, (REGION, ZONE, RACK, HOST)),
        ({REGION: "eu", RACK: "r1"}, (REGION, HOST)),  # a rack without its zone says nothing
        ({ZONE: "a", RACK: "r1"}, (HOST,)),
        ({REGION: ""}, (HOST,)),
    ],
)
def test_a_level_counts_only_below_levels_that_are_filled(filled: dict[str, str], levels: tuple[str, ...]) -> None:
    assert topology_profile(filled, LEVELS).levels == levels


def test_by_default_only_the_hostname_counts() -> None:
    profile = topology_profile({REGION: "eu", ZONE: "a"})
    assert profile.hostname_only
    assert profile.value == f"fnv64-{fnv64(HOST)}"


def test_nodes_of_one_shape_share_a_value_wherever_they_stand() -> None:
    here, there = (topology_profile({REGION: region}, LEVELS) for region in ("eu", "us"))
    assert here.value == there.value == f"fnv64-{fnv64(REGION + chr(0) + HOST)}"
    assert here.value != TopologyProfile().value


def test_a_topology_lists_its_levels_outermost_first() -> None:
    profile = topology_profile({REGION: "eu"}, LEVELS)
    assert topology(profile)["metadata"]["name"] == f"gpustack-{profile.value}"
    assert topology(profile)["spec"]["levels"] == [{"nodeLabel": REGION}, {"nodeLabel": HOST}]


def test_a_configured_hostname_ends_the_list() -> None:
    assert topology_profile({HOST: "n", RACK: "r"}, (HOST, RACK)).levels == (HOST,)


def test_levels_are_read_outermost_first_and_once() -> None:
    assert read_levels(f" {REGION}, {ZONE},,{REGION}") == (REGION, ZONE)
    assert read_levels("") == ()


@pytest.mark.parametrize("text", [HOST, "a b", "a/b/c", "-a", ",".join(f"level{number}" for number in range(16))])
def test_what_kueue_would_refuse_is_refused_at_start(text: str) -> None:
    with pytest.raises(ValueError, match="level"):
        read_levels(text)
