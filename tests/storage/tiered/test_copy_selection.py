"""The segments that a leader copies."""

from kafka_zk.storage.tiered.copy_selection import CopyCandidate, segments_to_copy
from tests.storage.tiered.segments import DELETED, DELETING, remote_log, segment, update

LINEAGE = [(0, 0), (1, 15)]
BASES = (0, 10, 20, 30)
FIRST, SECOND, THIRD = (
    CopyCandidate(0, 9, ((0, 0),)), CopyCandidate(10, 19, ((0, 10), (1, 15))), CopyCandidate(20, 29, ((1, 20),)),
)  # fmt: skip


def test_closed_segments_below_the_last_stable_offset_are_copied() -> None:
    """Never the active one, nor one that an open transaction or the high watermark reaches into."""
    assert segments_to_copy(remote_log(), LINEAGE, BASES, 0, 100) == [FIRST, SECOND, THIRD]
    assert segments_to_copy(remote_log(), LINEAGE, BASES, 0, 30) == [FIRST, SECOND, THIRD]
    assert segments_to_copy(remote_log(), LINEAGE, BASES, 0, 29) == [FIRST, SECOND]
    assert segments_to_copy(remote_log(), LINEAGE, BASES[:1], 0, 100) == []


def test_copied_segments_are_left_out_until_they_are_lost() -> None:
    """The second one was deleted as unfinished although it was not: it is copied again."""
    second = segment(2, 10, 19, (0, 10), (1, 15))
    log = remote_log(segment(1, 0, 9), second, segment(3, 20, 29, (1, 20)))
    assert segments_to_copy(log, LINEAGE, BASES, 0, 100) == []
    assert log.apply(update(second, DELETING)) and log.apply(update(second, DELETED))
    assert segments_to_copy(log, LINEAGE, BASES, 0, 100) == [SECOND]


def test_segment_is_copied_again_whose_end_is_of_another_lineage() -> None:
    """The lost leader of epoch 0 had copied up to 19; this one's epoch 1 begins at 15."""
    log = remote_log(segment(1, 0, 9), segment(2, 10, 19))
    assert segments_to_copy(log, LINEAGE, BASES, 0, 100) == [SECOND, THIRD]


def test_log_start_offset_limits_the_selection() -> None:
    """What lies before it is not missed; a segment in which it lies is copied whole."""
    assert segments_to_copy(remote_log(), [(0, 10), (1, 15)], BASES, 10, 100) == [SECOND, THIRD]
    cut = CopyCandidate(10, 19, ((0, 12), (1, 15)))
    assert segments_to_copy(remote_log(), [(0, 12), (1, 15)], BASES, 12, 100) == [cut, THIRD]
    assert segments_to_copy(remote_log(segment(1, 12, 19, (0, 12), (1, 15))), LINEAGE, BASES, 12, 100) == [THIRD]


def test_segments_without_leader_epochs_are_not_copied() -> None:
    """An old message format; later segments are not copied, either, because the remote log would have a gap."""
    assert segments_to_copy(remote_log(), [(1, 15)], BASES, 0, 100) == []
