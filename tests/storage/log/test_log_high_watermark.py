"""The high watermark and the last stable offset, which limit reads and deletions."""

from pathlib import Path

import pytest

from kafka_zk.base.types import FetchIsolation, LogAppendInfo
from kafka_zk.storage.files.errors import OffsetOutOfRange
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.log_validator import validate_batch
from kafka_zk.storage.segments.segment import Segment
from kafka_zk.storage.segments.segment_scan import BatchSpan
from tests.storage.helpers import T0, TP, append, batch, new_log, present, reopen
from tests.storage.manager.test_log_manager import crash, manager

HIGH_WATERMARK, TXN_COMMITTED = FetchIsolation.HIGH_WATERMARK, FetchIsolation.TXN_COMMITTED


def transactional(count: int = 1, producer_id: int = 1, sequence: int = 0) -> bytearray:
    return batch(count, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)


def commit(log: Log, producer_id: int = 1) -> LogAppendInfo:
    """Append the marker that ends the producer's transaction."""
    key, value = b"\0\0\0\1", b"\0\0\0\0\0\7"
    data = batch(key=key, value=value, producer_id=producer_id, producer_epoch=0, transactional=True, control=True)
    return log.append_as_leader(data, validate_batch(data), leader_epoch=0, now_ms=T0, from_client=False)


def test_a_log_on_its_own_commits_what_it_appends(tmp_path: Path) -> None:
    """The log needs no replica to move the high watermark."""
    log = new_log(tmp_path)
    append(log, batch(3))
    assert (log.high_watermark, log.last_stable_offset, log.commits_appends) == (3, 3, True)


def test_a_follower_is_told_its_high_watermark(tmp_path: Path) -> None:
    """A follower's own appends do not move its high watermark. The leader's value is limited to the log end offset."""
    leader, follower = new_log(tmp_path / "leader"), new_log(tmp_path / "follower")
    follower.update_high_watermark(0)
    for _ in range(4):
        append(leader, batch(3))
    follower.append_as_follower(present(leader.read(0, 1 << 20).slice).read(), now_ms=T0)
    assert (follower.log_end_offset, follower.high_watermark, follower.commits_appends) == (12, 0, False)
    assert follower.read(0, 1 << 20, isolation=HIGH_WATERMARK).slice is None
    assert [follower.update_high_watermark(offset) for offset in (6, 100)] == [6, 12]
    follower.update_high_watermark(6)
    assert follower.read(0, 1 << 20, isolation=HIGH_WATERMARK).next_offset == 6
    assert follower.read(0, 1 << 20).next_offset == 12
    assert follower.truncate_to(3)
    assert (follower.high_watermark, follower.log_end_offset) == (3, 3)
    follower.truncate_fully_and_start_at(50)
    assert (follower.high_watermark, follower.log_end_offset) == (50, 50)


def test_the_log_starts_at_the_high_watermark_at_most(tmp_path: Path) -> None:
    """DeleteRecords must not delete uncommitted records, and no offset is negative."""
    log = new_log(tmp_path)
    append(log, batch())
    append(log, batch(9))
    log.update_high_watermark(4)
    for offset in (5, 10, -1):
        with pytest.raises(OffsetOutOfRange):
            log.increment_log_start_offset(offset)
    assert log.log_start_offset == 0
    assert log.increment_log_start_offset(4) and log.log_start_offset == 4
    assert log.update_high_watermark(2) == 4


def test_a_restart_begins_with_the_checkpointed_high_watermarks(tmp_path: Path) -> None:
    """The high watermarks are limited to the log end. Until the leader is known, retention deletes no record above
    them.
    """
    logs = manager(tmp_path, default_config=LogConfig(segment_bytes=250, retention_ms=0))
    logs.start({})
    log = logs.get_or_create(TP)
    for _ in range(6):
        append(log, batch(value=b"x" * 100))
    log.update_high_watermark(3)
    logs.upkeep.checkpoint_high_watermarks()
    crash(logs)
    again = manager(tmp_path, default_config=LogConfig(segment_bytes=250, retention_ms=0))
    again.start({})
    log = present(again.get(TP))
    assert (log.high_watermark, log.log_end_offset) == (3, 6)
    assert again.upkeep.cleanup(T0 + 10**9) == 3
    log.truncate_to(5)
    log.follow_log_end()
    again.shutdown()
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nevents 0 5\n"


def test_high_watermarks_that_have_not_moved_are_not_written_again(tmp_path: Path) -> None:
    """With thousands of partitions, they would be written every five seconds."""
    works = []
    logs = manager(tmp_path, run_blocking=lambda work, done: works.append(work))
    logs.start({})
    log = logs.get_or_create(TP)
    append(log, batch())
    for _ in range(3):
        logs.upkeep.checkpoint_high_watermarks()
    assert len(works) == 1
    append(log, batch())
    logs.upkeep.checkpoint_high_watermarks()
    assert len(works) == 2
    logs.shutdown()


def test_read_committed_stops_at_an_open_transaction(tmp_path: Path) -> None:
    """The reader also stops at a transaction whose marker is not committed yet."""
    log = new_log(tmp_path)
    append(log, batch(2))
    append(log, transactional(2))
    append(log, batch(1))
    assert (log.high_watermark, log.last_stable_offset) == (5, 2)
    assert log.read(0, 1 << 20, isolation=TXN_COMMITTED).next_offset == 2
    log.update_high_watermark(5)
    commit(log)
    assert log.last_stable_offset == 2
    log.update_high_watermark(6)
    assert log.last_stable_offset == 6


@pytest.mark.parametrize("clean", [True, False])
def test_open_transactions_are_known_after_a_restart(tmp_path: Path, clean: bool) -> None:
    """Open transactions are restored from the snapshot or from the batches."""
    log = new_log(tmp_path)
    append(log, batch(2))
    append(log, transactional(2))
    append(log, transactional(2, producer_id=2))
    commit(log)
    log.flush()
    log.close()
    recovered, _ = reopen(log, clean=clean)
    assert (recovered.high_watermark, recovered.last_stable_offset) == (7, 4)


def test_transactions_that_ended_are_forgotten_without_readers(tmp_path: Path) -> None:
    """A log without readers does not accumulate ended transactions."""
    log = new_log(tmp_path)
    for number in range(20):
        append(log, transactional(sequence=number))
        commit(log)
    assert len(log.producers.transactions.unstable) == 1
    assert log.last_stable_offset == log.high_watermark == 40 and not log.producers.transactions.unstable


def test_transactions_behind_one_that_hangs_are_forgotten_when_they_end(tmp_path: Path) -> None:
    """A hanging transaction may stay open for days."""
    log = new_log(tmp_path)
    append(log, transactional(producer_id=2))
    for number in range(20):
        append(log, transactional(sequence=number))
        commit(log)
    assert log.last_stable_offset == 0 and len(log.producers.transactions.unstable) == 1


def test_where_a_follower_has_read_to_the_high_watermark_needs_no_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offset of the follower's next fetch becomes the high watermark, and its file position is already known."""
    log = new_log(tmp_path)
    log.update_high_watermark(0)
    for _ in range(8):
        append(log, batch(2, value=b"x" * 100))
    read = log.read(0, 600)
    assert 0 < read.next_offset < 16
    log.update_high_watermark(read.next_offset)
    searched: list[int] = []
    find = Segment.find

    def noted(segment: Segment, offset: int) -> BatchSpan | None:
        searched.append(offset)
        return find(segment, offset)

    monkeypatch.setattr(Segment, "find", noted)
    seen = log.read(0, 1 << 20, isolation=HIGH_WATERMARK)
    assert seen.slice is not None and read.slice is not None
    assert (seen.next_offset, seen.slice.size_bytes) == (read.next_offset, read.slice.size_bytes)
    assert searched == [0]
