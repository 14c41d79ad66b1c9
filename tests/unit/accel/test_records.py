import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.geometry import Placement
from gpustack_ctl.accel.records import Entry, RecordError, format_record, parse_record
from gpustack_ctl.accel.units import M

SLICE = (
    '{"main":{"devices":{"groups":[{"id":"a10g","manufacturer":"nvidia","accelerators":['
    '{"id":"GPU-0","index":0,"mode":3,"allocated":800000}]}]}}}'
)
PARTITION = (
    '{"main":{"devices":{"groups":[{"id":"a100-sxm4-80gb","manufacturer":"nvidia","accelerators":['
    '{"id":"GPU-4","index":4,"mode":4,"allocated":785000,"allocatedPhysicalProfile":"3g.40gb",'
    '"allocatedPhysicalPlacements":[{"start":4,"length":4}]}]}]}}}'
)


def test_a_slice_is_written_and_read_as_the_contract_says() -> None:
    record = {"main": (Entry("a10g", "nvidia", "GPU-0", 0, Mode.SLICED, 800000),)}
    assert format_record(record) == SLICE
    assert parse_record(SLICE) == record


def test_a_partition_carries_its_profile_and_placements() -> None:
    entry = Entry("a100-sxm4-80gb", "nvidia", "GPU-4", 4, Mode.PARTITIONED, 785000, "3g.40gb", (Placement(4, 4),))
    assert format_record({"main": (entry,)}) == PARTITION
    assert parse_record(PARTITION) == {"main": (entry,)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '"main"',
        '{"main":[]}',
        '{"main":{"devices":null}}',
        SLICE.replace('"mode":3', '"mode":9'),
        SLICE.replace('"mode":3', '"mode":0'),
        SLICE.replace("800000", "-1"),
        SLICE.replace("800000", "1600001"),
        SLICE.replace("800000", '"800000"'),
        SLICE.replace('"GPU-0"', "7"),
        SLICE.replace('"id":"GPU-0",', ""),
        PARTITION.replace('"start":4', '"start":-4'),
        PARTITION.replace('"length":4', '"length":4000000000'),
    ],
)
def test_what_is_not_exactly_a_record_raises(text: str) -> None:
    with pytest.raises(RecordError):
        parse_record(text)


entries = st.builds(
    Entry,
    group=st.sampled_from(["a10g", "t4"]),
    manufacturer=st.sampled_from(["nvidia", "hygon"]),
    id=st.text(min_size=1, max_size=8),
    index=st.integers(0, 15),
    mode=st.sampled_from([Mode.EXCLUSIVE, Mode.SHARED, Mode.SLICED]),
    units=st.integers(0, M),
)


@given(st.dictionaries(st.text(max_size=6), st.lists(entries, max_size=3).map(tuple), max_size=3))
def test_a_record_survives_writing_and_reading(record: dict[str, tuple[Entry, ...]]) -> None:
    read = parse_record(format_record(record))
    assert {name: sorted(held, key=repr) for name, held in read.items()} == {
        name: sorted(held, key=repr) for name, held in record.items()
    }


leaves = st.none() | st.integers() | st.text()
json = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(json)
def test_arbitrary_json_is_a_record_or_a_record_error(value: object) -> None:
    try:
        text = orjson.dumps(value).decode()
    except TypeError:  # an integer past 64 bits
        return
    try:
        assert isinstance(dict(parse_record(text)), dict)
    except RecordError as fault:
        assert str(fault)
