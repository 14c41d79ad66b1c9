"""What is on the disk, whatever happened to the process or the disk."""

import os
import resource
import signal
from contextlib import contextmanager

import pytest

from gpustack_ctl.accel.cards import PodKey
from gpustack_ctl.accel.families import Mode
from gpustack_ctl.accel.records import Entry
from gpustack_ctl.agent import reservations as reservations_module
from gpustack_ctl.agent.journal import Journal, JournalError
from gpustack_ctl.agent.reservations import Promise, Reservations


def _promise(number: int = 1) -> Promise:
    entry = Entry("a10g", "nvidia", f"GPU-{number}", number, Mode.SLICED, 800_000)
    pod = PodKey("default", f"pod-{number}", f"uid-{number}")
    return Promise(pod, "main", "nvidia.com/gpu.sliced", (f"a10g::GPU-{number}::0",), (entry,))


async def test_what_was_appended_is_read_back_by_the_next_process(tmp_path):
    path = tmp_path / "journal"
    for number in range(3):
        Journal(path).append({"number": number})

    assert [document["number"] for document in Journal(path).read()] == [0, 1, 2]


async def test_a_line_torn_by_a_kill_is_ignored(tmp_path):
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.append({"whole": True})
    whole = path.read_bytes()

    for cut in range(1, len(whole)):
        path.write_bytes(whole + whole[:cut])
        assert Journal(path).read() == [{"whole": True}]


async def test_a_disk_that_is_full_halfway_through_a_line_leaves_nothing_of_it(tmp_path):
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.append({"number": 1})
    room = path.stat().st_size + 5

    with _no_file_larger_than(room), pytest.raises(JournalError, match="cannot be written: File too large"):
        journal.append({"number": 2})
    journal.append({"number": 3})

    assert [document["number"] for document in Journal(path).read()] == [1, 3]


async def test_a_disk_that_fails_to_flush_is_told(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "journal")
    journal.append({"number": 1})

    def broken(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    with pytest.raises(JournalError, match="Input/output error"):
        await journal.flush()


async def test_flushing_what_a_rewrite_has_put_on_the_disk_is_nothing(tmp_path):
    journal = Journal(tmp_path / "journal")
    journal.append({"number": 1})
    await journal.rewrite([{"number": 1}])

    await journal.flush()

    assert journal.read() == [{"number": 1}]


@contextmanager
def _no_file_larger_than(size):
    """The kernel writes what fits and then refuses, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signals = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, signals)


async def test_a_promise_comes_back_as_it_was(tmp_path):
    Reservations(Journal(tmp_path / "journal")).add(_promise())

    after = Reservations(Journal(tmp_path / "journal"))
    await after.load()

    assert list(after) == [_promise()]


async def test_a_promise_that_cannot_be_written_is_not_made(tmp_path):
    reservations = Reservations(Journal(tmp_path / "no-such-directory" / "journal"))

    with pytest.raises(JournalError):
        reservations.add(_promise())
    assert list(reservations) == []


async def test_an_entry_of_another_version_is_skipped_and_the_rest_kept(tmp_path):
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.append({"from the future": 1})
    journal.append({"promise": {"namespace": "default"}})
    Reservations(journal).add(_promise())

    after = Reservations(Journal(path))
    await after.load()

    assert list(after) == [_promise()]


async def test_the_journal_is_rewritten_when_it_is_mostly_history(tmp_path, monkeypatch):
    monkeypatch.setattr(reservations_module, "_COMPACT_AT", 2000)
    path = tmp_path / "journal"
    reservations = Reservations(Journal(path))
    reservations.add(_promise(0))
    for _ in range(20):
        reservations.add(_promise(1))
        await reservations.drop([_promise(1).key])

    assert path.stat().st_size < 2500
    after = Reservations(Journal(path))
    await after.load()
    assert list(after) == [_promise(0)]
