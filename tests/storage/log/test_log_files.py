"""Retention, truncation, flush, deletion: what happens to a log's files."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kafka_zk.storage.files.errors import OffsetOutOfRange, TooManyOpenFiles
from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.log import local_log
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.storage.segments import log_segments
from tests.storage.faults import NO_SPACE, FaultyFiles
from tests.storage.helpers import T0, append, batch, new_log, present, read_offsets, read_values, remove_due, reopen


def filled(tmp_path: Path, count: int = 12, **config: Any) -> Log:
    """Segments of two one-record batches each, one second apart."""
    log = new_log(tmp_path, segment_bytes=250, **config)
    for number in range(count):
        append(log, batch(value=b"x" * 40, timestamp_ms=T0 + 1000 * number), now_ms=T0 + 1000 * number)
    assert [segment.base_offset for segment in log.segments] == list(range(0, count, 2))
    return log


def test_retention_by_age_keeps_the_younger_segments(tmp_path: Path) -> None:
    """A segment is deleted when its newest record is too old, and the log start offset moves forward."""
    log = filled(tmp_path, retention_ms=5000)
    assert log.delete_old_segments(T0 + 11_000) == 3
    assert (log.log_start_offset, log.segments[0].base_offset) == (6, 6)
    assert read_offsets(log) == list(range(6, 12))


def test_retention_by_size_keeps_at_least_the_limit(tmp_path: Path) -> None:
    """A segment is deleted only if the remaining segments still have at least retention.bytes."""
    log = filled(tmp_path)
    per_segment = log.segments[0].size_bytes
    log.update_config(type(log.config)(retention_bytes=2 * per_segment + 1, segment_bytes=250))
    assert log.delete_old_segments(T0) == 3
    assert log.log_start_offset == 6


def test_retention_by_start_offset_needs_no_delete_policy(tmp_path: Path) -> None:
    """DeleteRecords frees whole segments also in a compacted topic."""
    log = filled(tmp_path)
    log.increment_log_start_offset(5)
    log.update_config(type(log.config)(cleanup_policy=("compact",), retention_ms=0))
    assert log.delete_old_segments(T0 + 10**9) == 2
    assert (log.log_start_offset, log.segments[0].base_offset) == (5, 4)


def test_nothing_above_the_high_watermark_goes(tmp_path: Path) -> None:
    """Records that are not replicated are not deleted, whatever their age."""
    log = filled(tmp_path, retention_ms=0)
    log.update_high_watermark(5)
    assert log.delete_old_segments(T0 + 10**9) == 2
    log.follow_log_end()
    assert log.delete_old_segments(T0 + 10**9) == 4


def test_offsets_are_never_reused_after_everything_was_deleted(tmp_path: Path) -> None:
    """The active segment is also deleted. The new one begins at the log end offset, also after a restart."""
    log = filled(tmp_path, retention_ms=1000)
    assert log.delete_old_segments(T0 + 10**9) == 6
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (12, 12, 0)
    assert log.delete_old_segments(T0 + 2 * 10**9) == 0
    log.close()
    recovered, _ = reopen(log, clean=True)
    assert append(recovered, batch()).first_offset == 12


def test_unlimited_retention_keeps_everything(tmp_path: Path) -> None:
    """Both limits are -1."""
    log = filled(tmp_path, retention_ms=-1)
    assert log.delete_old_segments(T0 + 10**15) == 0


def test_deleted_files_are_renamed_first_and_removed_after_the_delay(tmp_path: Path) -> None:
    """The delay is file.delete.delay.ms. Snapshots of deleted segments are removed immediately."""
    log = filled(tmp_path, retention_ms=0, file_delete_delay_ms=60_000)
    log.delete_old_segments(T0 + 10**6)
    names = os.listdir(log.directory)
    assert sum(name.endswith(".log.deleted") for name in names) == 6
    assert remove_due(log.segments, T0 + 10**6 + 59_999) == 0
    assert remove_due(log.segments, T0 + 10**6 + 60_000) == 6
    assert [name for name in os.listdir(log.directory) if name.endswith(".deleted")] == []


def test_what_unlinks_deleted_files_may_run_later_and_anywhere(tmp_path: Path) -> None:
    """The log no longer refers to the files, whether the removal has run or not. Running it twice has no effect."""
    log = filled(tmp_path, retention_ms=0, file_delete_delay_ms=0)
    log.delete_old_segments(T0 + 10**6)
    due = log.segments.take_due(T0 + 10**6)
    assert len(due) == 6 and log.segments.take_due(T0 + 10**6) == []
    assert sum(name.endswith(".log.deleted") for name in os.listdir(log.directory)) == 6
    for remove in (*due, *due):
        remove()
    assert [name for name in os.listdir(log.directory) if name.endswith(".deleted")] == []


def test_a_retained_slice_outlives_deletion(tmp_path: Path) -> None:
    """The descriptor stays open until the last release, then it is closed."""
    log = filled(tmp_path, retention_ms=0, file_delete_delay_ms=0)
    read = log.read(0, 1 << 20)
    assert read.slice is not None
    expected = read.slice.read()
    segment = read.slice.segment
    read.slice.retain()
    read.slice.retain()
    log.delete_old_segments(T0 + 10**6)
    remove_due(log.segments, T0 + 10**6)
    assert not os.path.exists(segment.path)
    assert read.slice.read() == expected
    read.slice.release()
    assert segment.is_open
    read.slice.release()
    assert not segment.is_open


def test_truncation_drops_whole_batches_at_and_behind_the_offset(tmp_path: Path) -> None:
    """For every offset, the remaining log ends at or before it, and appends continue there."""
    for offset in range(13):
        log = filled(tmp_path / str(offset), index_interval_bytes=0)
        expected = read_values(log)
        assert (log.truncate_to(offset) is not None) == (offset < 12)
        assert log.log_end_offset == offset
        assert read_values(log) == expected[:offset]
        assert append(log, batch(value=b"new")).first_offset == offset
        assert read_values(log)[-1] == (offset, b"new")
        log.close()
        recovered, dropped = reopen(log)
        assert dropped is None and read_offsets(recovered) == list(range(offset + 1))


def test_truncation_inside_a_batch_drops_the_whole_batch(tmp_path: Path) -> None:
    """Batches are never split. Epochs, producers and the recovery point are truncated, too."""
    log = new_log(tmp_path)
    append(log, batch(5, producer_id=1, producer_epoch=0, base_sequence=0), leader_epoch=1)
    append(log, batch(5, producer_id=1, producer_epoch=0, base_sequence=5), leader_epoch=2)
    log.flush()
    log.truncate_to(7)
    assert (log.log_end_offset, log.recovery_point) == (5, 5)
    assert log.leader_epochs.entries == [(1, 0)]
    assert log.producers.producers[1].last_sequence == 4
    assert log.end_offset_for_epoch(1) == (1, 5)


def test_truncating_everything_starts_afresh(tmp_path: Path) -> None:
    """The follower's log is emptied like this if its leader's log begins later."""
    log = filled(tmp_path)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (100, 100, 100)
    assert append(log, batch()).first_offset == 100
    assert read_offsets(log) == [100]


def test_a_log_that_starts_afresh_makes_its_beginning_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of its segment and of its folder, which later flushes do not sync, become durable, then the recovery
    point. Without this order, a recovery would treat the records before it as lost.
    """
    log = filled(tmp_path)
    done: list[str] = []
    log.owner = owner = Mock()
    owner.recovery_point_is_needed.side_effect = lambda tp, offset: done.append(f"recovery point {offset}")
    for module in (log_segments, local_log):
        monkeypatch.setattr(module, "sync_path", lambda path: done.append(Path(path).name))
    log.truncate_fully_and_start_at(100)
    assert done == ["events-0", tmp_path.name, "recovery point 100"]


@pytest.mark.parametrize("offset", [12, 13, 1000])
def test_truncating_to_the_end_forgets_an_epoch_that_wrote_nothing(tmp_path: Path, offset: int) -> None:
    """A leader was replaced before its first record, so the next leader does not know its epoch."""
    log = filled(tmp_path)
    log.leader_epochs.begin(7, 12)
    assert not log.truncate_to(offset)
    assert log.leader_epochs.entries == [(0, 0)]
    assert (log.end_offset_for_epoch(0), log.log_end_offset) == ((0, 12), 12)
    assert read_offsets(log) == list(range(12))
    append(log, batch(), leader_epoch=8)
    again, _ = reopen(log)
    assert again.leader_epochs.entries == [(0, 0), (8, 12)]


def test_truncating_below_the_first_segment_starts_there(tmp_path: Path) -> None:
    """The leader's log ends before the follower's first segment. No epochs of removed records remain."""
    log = filled(tmp_path)
    log.increment_log_start_offset(6)
    log.delete_old_segments(T0)
    log.leader_epochs.begin(3, 12)
    assert log.truncate_to(4)
    assert (log.log_start_offset, log.log_end_offset, log.leader_epochs.entries) == (4, 4, [])
    assert append(log, batch(), leader_epoch=4).first_offset == 4
    assert (read_offsets(log), log.leader_epochs.entries) == ([4], [(4, 4)])


def test_truncating_within_the_deleted_part_takes_the_start_along(tmp_path: Path) -> None:
    """The log start offset never exceeds the log end offset."""
    log = filled(tmp_path)
    log.increment_log_start_offset(9)
    assert log.truncate_to(8)
    assert (log.log_start_offset, log.log_end_offset, log.leader_epochs.entries) == (8, 8, [])


@pytest.mark.parametrize("truncate", ["truncate_to", "truncate_fully_and_start_at"])
def test_a_negative_offset_is_refused(tmp_path: Path, truncate: str) -> None:
    """No segment can have such a base offset; nothing is truncated."""
    log = filled(tmp_path)
    with pytest.raises(OffsetOutOfRange):
        getattr(log, truncate)(-1)
    assert read_offsets(log) == list(range(12))


def test_a_flush_moves_the_recovery_point_and_comes_due_by_count_and_time(tmp_path: Path) -> None:
    """A flush is due by flush.messages and by flush.ms; after a flush, nothing is due."""
    log = new_log(tmp_path, flush_messages=3, flush_ms=1000)
    assert not log.flush_due(T0 + 10**9)
    append(log, batch(2), now_ms=T0)
    assert not log.flush_due(T0 + 999)
    assert log.flush_due(T0 + 1000)
    append(log, batch(1), now_ms=T0)
    assert log.flush_due(T0)
    log.flush()
    assert log.recovery_point == 3
    assert not log.flush_due(T0 + 10**9)


def test_after_a_roll_the_closed_segments_are_due(tmp_path: Path) -> None:
    """Therefore, a recovery usually reads only the active segment."""
    log = filled(tmp_path, 4)
    assert log.flush_target(T0) == 2
    log.flush(2)
    assert (log.recovery_point, log.flush_target(T0)) == (2, None)


def test_appends_during_a_flush_stay_unflushed(tmp_path: Path) -> None:
    """The recovery point moves to the log end offset at the start of the flush."""
    log = new_log(tmp_path, flush_ms=1000)
    append(log, batch(), now_ms=T0)
    work, done = log.prepare_flush()
    append(log, batch(), now_ms=T0 + 400)
    work()
    done()
    assert log.recovery_point == 1
    assert not log.flush_due(T0 + 999)
    assert log.flush_due(T0 + 1400)


def test_the_topic_id_is_durable_with_the_first_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power loss must not leave an empty ``partition.metadata``: the log would take any topic's id."""
    synced: list[str] = []
    monkeypatch.setattr(log_segments, "sync_path", synced.append)
    log = new_log(tmp_path)
    log.set_topic_id("AAAAAAAAAAAAAAAAAAAAAQ")
    append(log, batch())
    log.flush()
    assert [path for path in synced if path.endswith("/partition.metadata")]
    synced.clear()
    append(log, batch())
    log.flush()
    assert not [path for path in synced if path.endswith("/partition.metadata")]


def test_a_truncation_during_a_flush_wins(tmp_path: Path) -> None:
    """Records that replace truncated ones are not durable."""
    log = new_log(tmp_path)
    append(log, batch(4))
    append(log, batch(4))
    work, done = log.prepare_flush()
    work()
    log.truncate_to(4)
    append(log, batch(4))
    done()
    assert log.recovery_point == 0


def test_a_failed_flush_moves_nothing(tmp_path: Path, faults: FaultyFiles) -> None:
    """After an OSError from fsync, no new record counts as durable."""
    log = new_log(tmp_path)
    append(log, batch())
    faults.fail("sync_data")
    with pytest.raises(OSError):
        log.flush()
    assert log.recovery_point == 0
    assert not log.segments.active.is_pinned


def test_a_power_loss_costs_only_what_was_not_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: FaultyFiles
) -> None:
    """Every file falls back to its size at its last fsync."""
    synced = {}

    def note(descriptor: int) -> None:
        synced[faults.path_of(descriptor).removesuffix(".tmp")] = os.fstat(descriptor).st_size

    monkeypatch.setattr(faults, "sync_data", note)
    monkeypatch.setattr(faults, "sync", note)
    log = new_log(tmp_path, segment_bytes=700, index_interval_bytes=100)
    for number in range(30):
        append(log, batch(value=b"%d" % number * 20))
        if number == 20:
            log.flush()
    expected = read_values(log)
    for name in os.listdir(log.directory):
        path = str(log.directory / name)
        os.truncate(path, min(os.path.getsize(path), synced.get(path, 0)))
    recovered, _ = reopen(log, recovery_point=21)
    assert recovered.log_end_offset >= 21
    assert read_values(recovered) == expected[: recovered.log_end_offset]


def test_few_files_stay_open(tmp_path: Path) -> None:
    """The pool closes the least recently used files, and all logs stay readable and writable."""
    pool = FilePool(max_open_files=3)
    log = new_log(tmp_path, pool, segment_bytes=250)
    for number in range(40):
        append(log, batch(value=b"x" * 40, timestamp_ms=T0 + number))
        assert pool.open_count <= 3
    assert read_offsets(log) == list(range(40))
    assert pool.open_count <= 3
    pinned = [present(log.read(offset, 1).slice).retain() for offset in (0, 10, 20)]
    with pytest.raises(TooManyOpenFiles):
        present(log.read(30, 1).slice).retain()
    assert all(file_slice.segment.is_open for file_slice in pinned)
    assert read_offsets(log) == list(range(40))
    for file_slice in pinned:
        assert len(list(iter_batches(file_slice.read()))) == 1
        file_slice.release()
    append(log, batch())
    read_offsets(log)
    assert pool.open_count <= 4


def test_a_disk_that_is_full_leaves_no_half_batch(tmp_path: Path, faults: FaultyFiles) -> None:
    """A short write is cut off again, and the next append is whole."""
    log = new_log(tmp_path)
    append(log, batch(value=b"first"))
    faults.writes = [20, NO_SPACE]
    with pytest.raises(OSError, match="No space"):
        append(log, batch(value=b"second"))
    assert os.path.getsize(log.segments.active.path) == log.size_bytes
    append(log, batch(value=b"third"))
    assert [value for _, value in read_values(log)] == [b"first", b"third"]
    faults.writes = [30, 40, 1]
    append(log, batch(value=b"fourth"))
    assert not faults.writes
    assert read_values(log)[-1] == (2, b"fourth")
