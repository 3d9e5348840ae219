"""What a leader deletes from remote storage."""

import dataclasses
from collections.abc import Sequence

import pytest

from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.tiered.epoch_lineage import Lineage
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.remote_retention import remote_deletion
from kafka_zk.storage.tiered.tiered_replica import LocalSegment, TieredReplica
from tests.storage.tiered.segments import DELETING, FINISHED, remote_log, segment, update

FOREVER = dataclasses.replace(LogConfig(), retention_ms=-1)
SEGMENTS = [segment(number, start, start + 9, at_ms=start) for number, start in enumerate((0, 10, 20), 1)]
"""Each segment has ten offsets, 100 bytes and 10 ms."""


def deletion(
    log: RemotePartitionLog,
    config: LogConfig = FOREVER,
    log_start_offset: int = 0,
    local: Sequence[LocalSegment] = (LocalSegment(100, 100, 0, -1),),
    lineage: Lineage = ((0, 0),),
    busy: frozenset[int] = frozenset(),
    copies_begun_before_ms: int = 0,
) -> tuple[int, list[int]]:
    """The new log start offset, and the numbers of the segments to delete."""
    ids = {key for key in log.segments if key.int in busy}
    leader = TieredReplica(lineage, log_start_offset, local)
    plan = remote_deletion(log, leader, config, ids, copies_begun_before_ms, 50)
    return plan.log_start_offset, [each.segment_id.id.int for each in plan.segments]


@pytest.mark.parametrize(
    ("retention_ms", "expected"),
    [(-1, (0, [])), (50, (0, [])), (45, (10, [1])), (35, (20, [1, 2])), (0, (30, [1, 2, 3]))],
)
def test_retention_by_age(retention_ms: int, expected: tuple[int, list[int]]) -> None:
    """The age of a segment is that of its newest record."""
    config = dataclasses.replace(FOREVER, retention_ms=retention_ms)
    assert deletion(remote_log(*SEGMENTS), config) == expected


def test_segment_without_timestamps_ages_from_its_copy() -> None:
    """The segment was copied at 20, and the current time is 50."""
    copied = dataclasses.replace(segment(1, 0, 9), max_timestamp_ms=-1)
    log = RemotePartitionLog()
    assert log.apply(copied) and log.apply(update(copied, FINISHED, at_ms=20))
    assert deletion(log, dataclasses.replace(FOREVER, retention_ms=30)) == (0, [])
    assert deletion(log, dataclasses.replace(FOREVER, retention_ms=29)) == (10, [1])


@pytest.mark.parametrize(
    ("retention_bytes", "expected"), [(500, (0, [])), (401, (0, [])), (400, (10, [1])), (0, (30, [1, 2, 3]))]
)
def test_retention_by_size_counts_remote_and_local_bytes(retention_bytes: int, expected: tuple[int, list[int]]) -> None:
    """300 bytes are remote, 200 only local, and 100 both."""
    config = dataclasses.replace(FOREVER, retention_bytes=retention_bytes)
    local = (LocalSegment(20, 30, 100, -1), LocalSegment(30, 40, 200, -1))
    assert deletion(remote_log(*SEGMENTS), config, local=local) == expected


def test_overlaps_are_counted_once() -> None:
    """The total is 50 bytes for offsets 0 to 4 and 100 for 5 to 14: 150, not 200."""
    log = remote_log(segment(1, 0, 9), segment(2, 5, 14))
    for retention_bytes, expected in ((101, (0, [])), (100, (5, [])), (1, (5, [])), (0, (15, [1, 2]))):
        assert deletion(log, dataclasses.replace(FOREVER, retention_bytes=retention_bytes)) == expected


def test_local_records_in_a_gap_count_with_the_segment_after_them() -> None:
    """Only the leader has 10 to 19. They take 100 bytes and are older than the segment after them."""
    log = remote_log(SEGMENTS[0], SEGMENTS[2])
    local = (LocalSegment(5, 15, 100, -1), LocalSegment(15, 30, 150, -1))
    for retention_bytes, expected in ((201, (0, [])), (200, (10, [1])), (1, (10, [1])), (0, (30, [1, 3]))):
        config = dataclasses.replace(FOREVER, retention_bytes=retention_bytes)
        assert deletion(log, config, local=local) == expected
    assert deletion(log, dataclasses.replace(FOREVER, retention_ms=0), local=local) == (30, [1, 3])


def test_log_start_offset_deletes_what_lies_before_it() -> None:
    """The segment that contains the offset stays."""
    log = remote_log(*SEGMENTS)
    assert deletion(log, log_start_offset=9) == (9, [])
    assert deletion(log, log_start_offset=25) == (25, [1, 2])


def test_lost_lineage_is_kept_until_the_log_start_offset_has_passed_it() -> None:
    """Segment 2 is of epoch 1, which the leader does not have, and segment 3 has replaced segment 4. Neither stops
    retention.
    """
    log = remote_log(segment(1, 0, 9), segment(2, 10, 19, (1, 10)), segment(4, 12, 15, (2, 12)))
    for each in (segment(3, 10, 19, (2, 10)), segment(5, 20, 29, (2, 20))):
        assert log.apply(each) and log.apply(update(each, FINISHED))
    lineage = ((0, 0), (2, 10))
    assert deletion(log, lineage=lineage) == (0, [])
    assert deletion(log, dataclasses.replace(FOREVER, retention_bytes=100), lineage=lineage) == (20, [1, 2, 3, 4])


def test_lineage_that_lacks_old_epochs_deletes_nothing() -> None:
    """The leader epochs were rebuilt from local segments; Kafka would delete all segments of epoch 0."""
    assert deletion(remote_log(*SEGMENTS), lineage=((1, 30),)) == (0, [])
    assert deletion(remote_log(*SEGMENTS), lineage=()) == (0, [])


def test_unfinished_copies_and_deletions() -> None:
    """A copy is deleted when it is too old to finish, an interrupted deletion is continued immediately, and neither
    happens while the segment is busy."""
    log = remote_log(segment(1, 0, 9))
    deleted = segment(2, 10, 19)
    begun = segment(3, 20, 29, at_ms=40)
    for record in (deleted, update(deleted, DELETING), begun):
        assert log.apply(record)
    assert deletion(log, copies_begun_before_ms=40) == (0, [2])
    assert deletion(log, copies_begun_before_ms=41) == (0, [2, 3])
    assert deletion(log, copies_begun_before_ms=41, busy=frozenset({2, 3})) == (0, [])
    assert deletion(log, log_start_offset=90) == (90, [1, 2])
