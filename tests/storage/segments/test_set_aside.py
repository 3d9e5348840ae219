"""Records that recovery or truncation removes from a log are moved aside durably, and can be read from there."""

import os
from pathlib import Path

import pytest

from kafka_zk.storage.files.filenames import offset_file
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.storage.segments.set_aside import TAIL_SUFFIX, set_aside
from tests.storage.helpers import append, batch, new_log, present, read_offsets, reopen


def filled(path: Path, count: int = 10) -> Log:
    """A log with two records per segment."""
    log = new_log(path, segment_bytes=250)
    for number in range(count):
        append(log, batch(value=b"%040d" % number))
    log.segments.active.write_out_indexes()
    return log


def kept(folder: str) -> list[int]:
    """The offsets in a folder, from whole segments and tails."""
    found = []
    for path in sorted(Path(folder).iterdir()):
        if path.name.endswith((".log", TAIL_SUFFIX)):
            data = path.read_bytes()
            found += [record.offset for at, _ in iter_batches(data) for record in decode_records(data, at)]
    return found


@pytest.mark.parametrize("offset", range(10))
def test_committed_records_that_a_truncation_drops_are_kept(tmp_path: Path, offset: int) -> None:
    """An unclean election makes a follower drop records that consumers have read."""
    log = filled(tmp_path)
    log.update_high_watermark(10)
    truncation = present(log.truncate_to(offset))
    assert (truncation.end_offset, read_offsets(log)) == (offset, list(range(offset)))
    assert kept(present(truncation.kept_as)) == list(range(offset, 10))
    append(log, batch())
    assert read_offsets(log) == list(range(offset + 1))
    again, dropped = reopen(log)
    assert dropped is None and read_offsets(again) == list(range(offset + 1))


def test_uncommitted_records_that_a_truncation_drops_are_deleted(tmp_path: Path) -> None:
    """Every new leader makes followers drop some records, which were never acknowledged."""
    log = filled(tmp_path)
    log.update_high_watermark(6)
    assert present(log.truncate_to(6)).kept_as is None
    assert not list(log.directory.glob("*.moved-aside"))


def test_a_log_that_begins_later_than_the_truncation_is_kept_whole(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.update_high_watermark(10)
    log.increment_log_start_offset(4)
    log.delete_old_segments(0)
    assert kept(present(present(log.truncate_to(1)).kept_as)) == [4, 5, 6, 7, 8, 9]
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)


def test_recovery_keeps_the_bytes_that_it_cuts_off(tmp_path: Path) -> None:
    """The damage is a flipped bit in the middle of a segment that was not flushed."""
    log = filled(tmp_path)
    log.segments.close_files()
    third = log.segments[2]
    with open(third.path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")
    again, dropped = reopen(log)
    dropped = present(dropped)
    assert (read_offsets(again), dropped.log_end_offset) == ([0, 1, 2, 3, 4], 5)
    tail = Path(present(dropped.kept_as), offset_file(5, TAIL_SUFFIX))
    assert tail.read_bytes().endswith(b"?")
    tail.unlink()
    assert kept(present(dropped.kept_as)) == [6, 7, 8, 9]


def test_zeros_behind_the_log_are_not_kept(tmp_path: Path) -> None:
    """Kafka preallocates files, and zeros contain no records."""
    log = filled(tmp_path, 2)
    log.segments.close_files()
    with open(log.segments.active.path, "ab") as file:
        file.write(bytes(3_000_000))
    again, dropped = reopen(log)
    assert present(dropped).kept_as is None and read_offsets(again) == [0, 1]


def test_two_cuts_at_one_offset_have_two_folders(tmp_path: Path) -> None:
    log = filled(tmp_path)
    folders = []
    for _ in range(2):
        log.follow_log_end()
        append(log, batch())
        folders.append(present(log.truncate_to(4)).kept_as)
    assert len(set(folders)) == 2


def test_nothing_to_keep_makes_no_folder(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert set_aside(str(log.directory), 10, []) is None
    assert not list(log.directory.glob("*.moved-aside"))


def test_a_reader_of_a_segment_that_goes_aside_reads_on(tmp_path: Path) -> None:
    log = filled(tmp_path)
    found = present(log.read(8, 1_000).slice).retain()
    log.follow_log_end()
    log.truncate_to(0)
    data = found.read()
    assert [header.base_offset for _, header in iter_batches(data)] == [8, 9]
    found.release()
