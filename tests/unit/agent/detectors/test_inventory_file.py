"""Inventories read, and every fault of a bad one named by file, line and field."""

import pytest

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.agent.detectors.inventory_file import CallFailure, CardFailure, load_inventory, read_inventory
from gpustack_ctl.documents.marked import DocumentError

TABLE = manufacturers()

GOOD = """\
cards:
- model: NVIDIA A10G
  manufacturer: nvidia
  count: 2
  memoryMib: 24576
"""


def _read(text):
    return read_inventory(text, source="cards.yaml", table=TABLE)


def _faults(text):
    with pytest.raises(DocumentError) as found:
        _read(text)
    return list(found.value.faults)


def test_what_is_left_out_has_its_default():
    (entry,) = _read(GOOD).cards

    assert (entry.product, entry.count, entry.memory_mib, entry.slots) == ("NVIDIA A10G", 2, 24576, 128)
    assert entry.numa == (None, None)
    assert entry.profiles == ()


def test_versions_are_text_whatever_yaml_makes_of_them():
    (entry,) = _read(GOOD + "  driverVersion: 535.10\n  computeCapability: 8.6\n").cards

    assert (entry.driver_version, entry.compute_capability) == ("535.10", "8.6")


def test_mig_takes_its_geometry_from_the_model():
    text = "cards: [{model: NVIDIA A100-SXM4-80GB, manufacturer: nvidia, memoryMib: 81920, mig: true}]"

    names = [profile.name for profile in _read(text).cards[0].profiles]

    assert {"1g.10gb", "3g.40gb", "7g.80gb"} <= set(names)


def test_written_profiles_win_over_the_model():
    text = (
        GOOD
        + "  profiles: [{name: 1g.6gb, memoryMib: 6144, placements: [{start: 0, length: 1}, {start: 1, length: 1}]}]\n"
    )

    (profile,) = _read(text).cards[0].profiles

    assert profile.placements == (Placement(0, 1), Placement(1, 1))
    assert (profile.count, profile.memory_slices) == (2, 1)


def test_a_profile_name_is_read_in_its_published_spelling():
    text = (
        "cards: [{model: PPU, manufacturer: thead, memoryMib: 98304, "
        "profiles: [{name: 4g48gb, memoryMib: 49152, placements: [{start: 0, length: 4}]}]}]"
    )

    assert _read(text).cards[0].profiles[0].name == "4g.48gb"


def test_failures_are_of_a_card_or_of_a_call():
    file = _read(
        GOOD
        + "failures: [{at: 30, card: 1, unhealthy: true, for: 20}, {call: create-gpu-instance, error: full, times: 2}]"
    )

    assert file.card_failures == (CardFailure(1, 30.0, 20.0),)
    assert file.call_failures == (CallFailure("create-gpu-instance", "full", 2),)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "cards.yaml:1: cards: Required value: write at least one entry"),
        ("cards: 4", 'cards.yaml:1: cards: Invalid value: "4": write a list of cards'),
        ("cards:\n- 4", 'cards.yaml:2: cards[0]: Invalid value: "4": write a mapping with model'),
        ("- a\n", 'cards.yaml:1: document: Invalid value: "a list": write a mapping with cards, failures'),
        ("cards: [\n", "cards.yaml:2: not valid YAML"),
        ("cards:\n\t- x", "cards.yaml:2: not valid YAML"),
        (
            GOOD.replace("2", "0", 1),
            'cards.yaml:4: cards[0].count: Invalid value: "0": write a whole number, from 1 to 64',
        ),
        (
            GOOD.replace("24576", "24 GiB"),
            'cards.yaml:5: cards[0].memoryMib: Invalid value: "24 GiB": write a whole number',
        ),
        (
            GOOD.replace("  memoryMib: 24576\n", ""),
            "cards.yaml:2: cards[0].memoryMib: Required value: write the memory",
        ),
        (
            GOOD.replace("memoryMib", "memoryMiB"),
            'cards[0].memoryMiB: Invalid value: "24576": no such field; did you mean memoryMib?',
        ),
        (
            GOOD.replace("nvidia", "nvida"),
            'cards.yaml:3: cards[0].manufacturer: Invalid value: "nvida": write one of amd',
        ),
        (GOOD.replace("NVIDIA A10G", "''"), "cards.yaml:2: cards[0].model: Required value: write the product name"),
        (GOOD + "  numa: [0]\n", 'cards.yaml:6: cards[0].numa: Invalid value: "a list": has 1 NUMA nodes for 2 cards'),
        (
            GOOD + "  mig: true\n",
            'cards.yaml:6: cards[0].mig: Invalid value: "true": the geometry of NVIDIA A10G is not known',
        ),
        (GOOD + "  mig: perhaps\n", 'cards.yaml:6: cards[0].mig: Invalid value: "perhaps": write true or false'),
        (
            GOOD + "failures: [{at: soon, card: 0}]\n",
            'cards.yaml:6: failures[0].at: Invalid value: "soon": write seconds',
        ),
        (
            GOOD + "failures: [{at: 1, card: 2}]\n",
            'failures[0].card: Invalid value: "2": write a whole number, from 0 to 1',
        ),
        (GOOD + "failures: [{at: 1}]\n", "failures[0].card: Required value: write the index of a card"),
        (GOOD + "failures: [{call: reboot}]\n", 'failures[0].call: Invalid value: "reboot": write one of create-gpu'),
        (
            GOOD + "failures: [{call: create-gpu-instance, at: 3}]\n",
            'failures[0].at: Invalid value: "3": belongs to a failing card',
        ),
        (GOOD.replace("count: 2", "count: 65"), "cards[0].count"),
    ],
)
def test_a_fault_names_file_line_and_field(text, fault):
    assert any(fault in found for found in _faults(text)), _faults(text)


def test_every_fault_is_reported_at_once_in_the_order_of_the_file():
    faults = _faults(
        "cards:\n- {model: A, manufacturer: acme, memoryMib: 1}\n- {model: B, manufacturer: amd}\nfailure: []\n"
    )

    assert [fault.split(":")[1] for fault in faults] == ["2", "3", "4"]


def test_a_file_that_is_not_text_is_a_fault_too(tmp_path):
    path = tmp_path / "cards.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(DocumentError, match="not UTF-8"):
        load_inventory(path, table=TABLE)
