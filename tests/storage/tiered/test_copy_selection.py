"""The segments that a leader copies."""

from kafka_zk.storage.tiered.copy_selection import segments_to_copy
from kafka_zk.storage.tiered.epoch_lineage import Lineage
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.tiered_replica import LocalSegment, TieredReplica
from tests.storage.tiered.segments import DELETED, DELETING, remote_log, segment, update

LINEAGE = [(0, 0), (1, 15)]
SEGMENTS = [LocalSegment(start, start + 10, 100, start) for start in (0, 10, 20, 30)]
"""The last segment is active."""


def bases(
    log: RemotePartitionLog, log_start_offset: int = 0, last_stable_offset: int = 40, lineage: Lineage = LINEAGE
) -> list[int]:
    """The base offsets of the selected segments."""
    found = segments_to_copy(log, TieredReplica(lineage, log_start_offset, SEGMENTS), last_stable_offset)
    return [each.segment.base_offset for each in found]


def test_closed_segments_below_the_last_stable_offset_are_copied() -> None:
    """The active segment is not copied. Neither is a segment that contains the high watermark or part of an open
    transaction."""
    assert bases(remote_log()) == [0, 10, 20]
    assert bases(remote_log(), last_stable_offset=30) == [0, 10, 20]
    assert bases(remote_log(), last_stable_offset=29) == [0, 10]


def test_leader_epochs_of_a_segment_are_those_within_it() -> None:
    found = segments_to_copy(remote_log(), TieredReplica(LINEAGE, 0, SEGMENTS), 40)
    assert [each.leader_epochs for each in found] == [((0, 0),), ((0, 10), (1, 15)), ((1, 20),)]


def test_copying_continues_after_the_last_copied_offset() -> None:
    """Copying continues there even if that segment was deleted. A gap before it is not filled, because the new segment
    would hide a longer one.
    """
    second = segment(2, 10, 19, (0, 10), (1, 15))
    log = remote_log(second)
    assert bases(log) == [20]
    assert log.apply(update(second, DELETING)) and log.apply(update(second, DELETED))
    assert bases(log) == [20]


def test_segment_is_copied_again_whose_end_is_of_another_lineage() -> None:
    """The lost leader of epoch 0 had copied up to 19; this leader's epoch 1 begins at 15."""
    assert bases(remote_log(segment(1, 0, 9), segment(2, 10, 19))) == [10, 20]


def test_log_start_offset_limits_the_selection() -> None:
    """Segments before it are not copied; the segment that contains it is copied whole."""
    assert bases(remote_log(), log_start_offset=10) == [10, 20]
    assert bases(remote_log(), log_start_offset=12, lineage=[(0, 12), (1, 15)]) == [10, 20]


def test_segments_without_leader_epochs_are_not_copied() -> None:
    """Such segments have an old message format. Later segments are not copied, either, because the remote log would
    have a gap.
    """
    assert bases(remote_log(), lineage=[(1, 15)]) == []
