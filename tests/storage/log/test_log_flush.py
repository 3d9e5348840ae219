"""When a flush is due, and which changes are left to the next flush."""

import os
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files import files
from kafka_zk.storage.files.filenames import PARTITION_METADATA
from kafka_zk.storage.log import local_log
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.log_owner import LogOwner
from kafka_zk.storage.records.end_transaction_marker import marker_batch
from kafka_zk.storage.records.log_validator import validate_batch
from tests.storage.helpers import T0, append, batch, new_log, reopen


class Owner(LogOwner):
    """Counts the notifications that it receives."""

    def __init__(self) -> None:
        self.went_back = 0

    def recovery_point_went_back(self, tp: TopicPartition) -> None:
        self.went_back += 1

    def log_became_dirty(self, tp: TopicPartition) -> None:
        """This notification is not counted."""
        return

    def snapshot_is_large(self, tp: TopicPartition) -> None:
        raise AssertionError("there are no producers")

    def log_start_offset_is_needed(self, tp: TopicPartition) -> None:
        raise AssertionError("the log is not tiered")

    def recovery_point_is_needed(self, tp: TopicPartition, offset: int) -> None:
        raise AssertionError("there is no gap")


class Synced(files.FileSystem):
    """Records the names of synced files."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._open: dict[int, str] = {}

    def open(self, path: str, flags: int) -> int:
        descriptor = super().open(path, flags)
        self._open[descriptor] = os.path.basename(path)
        return descriptor

    def sync(self, descriptor: int) -> None:
        self.names.append(self._open.get(descriptor, ""))

    sync_data = sync


def test_a_flush_makes_all_durable_and_nothing_is_due_after_it(tmp_path: Path) -> None:
    log = new_log(tmp_path, flush_ms=1_000)
    assert not log.is_dirty and not log.flush_due(T0 + 10**9)
    append(log, batch(3))
    assert [log.is_dirty, log.recovery_point] == [True, 0]
    log.flush()
    assert [log.is_dirty, log.recovery_point] == [False, 3]
    assert not log.flush_due(T0 + 10**9)


def test_a_flush_is_due_when_the_oldest_record_is_as_old_as_flush_ms(tmp_path: Path) -> None:
    log = new_log(tmp_path, flush_ms=1_000)
    append(log, batch(), now_ms=T0)
    append(log, batch(), now_ms=T0 + 500)
    assert not log.flush_due(T0 + 999)
    assert log.flush_due(T0 + 1_000)


def test_what_is_appended_while_a_flush_is_under_way_waits_for_the_next_one(tmp_path: Path) -> None:
    """The first flush after a start behaves the same way."""
    log = new_log(tmp_path, flush_ms=1_000)
    append(log, batch())
    log.close()
    again, _ = reopen(log)
    work, done = again.prepare_flush()
    append(again, batch(), now_ms=T0 + 100)
    work()
    done()
    assert again.recovery_point == 1 and again.is_dirty
    assert again.flush_due(T0 + 1_100)


def test_a_flush_of_a_log_that_was_cut_meanwhile_moves_nothing(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(3):
        append(log, batch())
    work, done = log.prepare_flush()
    log.truncate_to(1)
    append(log, batch())
    work()
    done()
    assert (log.recovery_point, log.log_end_offset, log.is_dirty) == (0, 2, True)


def test_the_owner_is_told_only_of_a_recovery_point_that_goes_back(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.owner = owner = Owner()
    for _ in range(3):
        append(log, batch())
    log.flush(up_to=1)
    log.truncate_to(2)
    assert owner.went_back == 0
    log.truncate_to(0)
    assert owner.went_back == 1


def test_a_log_without_an_owner_can_be_truncated(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(3):
        append(log, batch())
    log.flush()
    log.truncate_to(1)
    assert (log.recovery_point, log.log_end_offset) == (1, 1)


def test_a_topic_id_that_is_written_during_a_flush_is_synced_by_the_next_one(tmp_path: Path) -> None:
    """Later flushes do not sync it again."""
    log = new_log(tmp_path)
    append(log, batch())
    work, done = log.prepare_flush()
    log.set_topic_id("AAAAAAAAAAAAAAAAAAAABw")
    append(log, batch())
    work()
    done()
    synced = Synced()
    with files.use(synced):
        log.flush()
        append(log, batch())
        log.flush()
    assert synced.names.count(PARTITION_METADATA) == 1


def _append_of_a_producer(log: Log, number: int) -> None:
    append(log, batch(2, value=b"x" * 50, producer_id=9, producer_epoch=0, base_sequence=2 * number))


def test_a_roll_syncs_nothing_and_the_next_flush_syncs_its_snapshot_once(tmp_path: Path) -> None:
    """A roll runs on the thread that handles all requests, and an fsync could block it for seconds."""
    log = new_log(tmp_path, segment_bytes=200)
    synced = Synced()
    with files.use(synced):
        for number in range(3):
            _append_of_a_producer(log, number)
        rolled_at = [segment.base_offset for segment in log.segments][1:]
        assert rolled_at and not synced.names
        snapshots = [f"{offset:020}.snapshot" for offset in rolled_at]
        work, done = log.prepare_flush(rolled_at[-1])
        work()
        done()
        assert [name for name in synced.names if name.endswith(".snapshot")] == snapshots
        assert synced.names.index("events-0") > synced.names.index(snapshots[-1]), "contents are synced before names"
        _append_of_a_producer(log, 3)
        log.flush()
    assert [synced.names.count(name) for name in snapshots] == [1] * len(snapshots)


def test_a_snapshot_of_a_roll_during_a_flush_is_due_for_the_next_one(tmp_path: Path) -> None:
    """The recovery point is then where the active segment begins, so only the snapshot is missing."""
    log = new_log(tmp_path, segment_bytes=200)
    _append_of_a_producer(log, 0)
    work, done = log.prepare_flush()
    _append_of_a_producer(log, 1)
    work()
    done()
    assert (log.recovery_point, log.flush_target(T0)) == (2, 2)
    synced = Synced()
    with files.use(synced):
        log.flush(2)
    assert f"{2:020}.snapshot" in synced.names
    assert log.flush_target(T0) is None


def test_a_log_that_was_cut_syncs_only_the_snapshots_that_are_left(tmp_path: Path) -> None:
    """The stop does not flush, because nothing is left to flush. Syncing a missing file would make the stop unclean."""
    log = new_log(tmp_path, segment_bytes=200)
    _append_of_a_producer(log, 0)
    log.flush()
    for number in (1, 2):
        _append_of_a_producer(log, number)
    log.update_high_watermark(2)
    log.truncate_to(2)
    assert (log.recovery_point, log.log_end_offset) == (2, 2)
    left = list[str]()
    log.close(left.append)
    assert [path for path in left if path.endswith(".snapshot")] == [f"{log.directory}/{2:020}.snapshot"]


def test_a_closed_log_leaves_its_snapshots_to_the_owner_to_sync(tmp_path: Path) -> None:
    """At a stop, worker threads sync the files of thousands of logs."""
    log = new_log(tmp_path, segment_bytes=200)
    _append_of_a_producer(log, 0)
    log.flush()
    synced, left = Synced(), list[str]()
    with files.use(synced):
        log.close(left.append)
    folder = str(log.directory)
    assert not synced.names
    assert f"{folder}/{log.log_end_offset:020}.snapshot" in left and folder in left


def _abort(log: Log) -> None:
    """A transaction of one record, and its abort marker."""
    append(log, batch(producer_id=9, producer_epoch=0, base_sequence=0, transactional=True))
    marker = marker_batch(9, 0, 0, is_commit=False, timestamp_ms=T0)
    log.append_as_leader(marker, validate_batch(marker), leader_epoch=0, now_ms=T0, from_client=False)


INDEX = f"{0:020}.txnindex"


def test_a_flush_syncs_the_aborted_transactions_although_another_is_about_to(tmp_path: Path) -> None:
    """This flush may end first, and its recovery point makes a start trust the index entries."""
    log = new_log(tmp_path)
    _abort(log)
    log.prepare_flush()
    synced = Synced()
    with files.use(synced):
        log.flush()
        log.flush()
    assert log.recovery_point == 2
    assert synced.names.count(INDEX) == 1


def test_aborted_transactions_of_a_killed_process_are_synced_before_they_count_as_durable(tmp_path: Path) -> None:
    """The entries may be only in the page cache."""
    log = new_log(tmp_path)
    _abort(log)
    log.segments.close_files()
    again, _ = reopen(log)
    synced = Synced()
    with files.use(synced):
        again.flush()
    assert synced.names.count(INDEX) == 1


def test_snapshots_of_a_killed_process_are_synced_before_they_count_as_durable(tmp_path: Path) -> None:
    """A log without unflushed records gets a flush for them as well."""
    log = new_log(tmp_path)
    append(log, batch(producer_id=9, producer_epoch=0, base_sequence=0))
    log.flush()
    log.roll(T0)
    log.segments.close_files()
    again, _ = reopen(log, recovery_point=1)
    assert (again.producers.snapshot_offset, again.producers.durable_offset, again.is_dirty) == (1, -1, True)
    synced = Synced()
    with files.use(synced):
        again.flush(again.flush_target(T0))
    assert synced.names.count(f"{1:020}.snapshot") == 1
    assert (again.producers.durable_offset, again.is_dirty) == (1, False)


@pytest.mark.parametrize(("at_once", "durable"), [(2, 1), (0, -1)])
def test_a_large_snapshot_of_a_killed_process_may_be_behind_the_recovery_point(
    tmp_path: Path, at_once: int, durable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot is written while the log is flushed."""
    log = new_log(tmp_path)
    append(log, batch(producer_id=9, producer_epoch=0, base_sequence=0))
    log.roll(T0)
    append(log, batch())
    log.segments.close_files()
    monkeypatch.setattr(local_log, "WRITTEN_AT_ONCE", at_once)
    again, _ = reopen(log, recovery_point=2)
    assert again.producers.durable_offset == durable
