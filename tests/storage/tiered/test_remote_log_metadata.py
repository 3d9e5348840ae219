"""The remote log of a partition, as brokers see it: states, overlaps, lost epochs, gaps."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_zk.storage.tiered.remote_log_metadata import RemoteLogMetadata, RemotePartitionLog, gaps
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from tests.storage.tiered.segments import DELETED, DELETING, FINISHED, STARTED, T, remote_log, segment, update

FIRST = segment(1, 0, 9)


def find(log: RemotePartitionLog, epoch: int, offset: int) -> int | None:
    found = log.find(epoch, offset)
    return None if found is None else found[0].segment_id.id.int


def test_segment_can_be_read_between_copy_and_deletion_only() -> None:
    """A lookup finds the segment only in COPY_SEGMENT_FINISHED, and the segment is forgotten after
    DELETE_SEGMENT_FINISHED.
    """
    log = RemotePartitionLog()
    assert log.apply(FIRST) and find(log, 0, 5) is None
    assert log.apply(update(FIRST, FINISHED)) and find(log, 0, 5) == 1
    assert log.apply(update(FIRST, DELETING)) and find(log, 0, 5) is None
    assert len(log.segments) == 1
    assert log.apply(update(FIRST, DELETED))
    assert not log.segments


@pytest.mark.parametrize(
    ("states", "last"),
    [
        ((), FINISHED), ((), DELETING), ((), DELETED),
        ((STARTED,), DELETED), ((STARTED, FINISHED), STARTED), ((STARTED, FINISHED), DELETED),
        ((STARTED, DELETING), FINISHED), ((STARTED, FINISHED, DELETING, DELETED), FINISHED),
    ],
)  # fmt: skip
def test_illegal_transitions_change_nothing(
    states: tuple[RemoteLogSegmentState, ...], last: RemoteLogSegmentState
) -> None:
    """Every transition that the table does not list is dropped."""
    log = RemotePartitionLog()
    for state in states:
        assert log.apply(FIRST if state is STARTED else update(FIRST, state))
    before = dict(log.segments)
    assert not log.apply(FIRST if last is STARTED and states else update(FIRST, last))
    assert log.segments == before


def test_repeated_states_are_legal() -> None:
    """A broker may write the same record again after an unknown outcome."""
    log = RemotePartitionLog()
    assert log.apply(FIRST) and log.apply(FIRST)
    for state in (FINISHED, FINISHED, DELETING, DELETING):
        assert log.apply(update(FIRST, state))


def test_later_segment_that_contains_another_replaces_it() -> None:
    """Two leaders copied the same offsets: 10 to 20, then 5 to 30 (KAFKA-15168)."""
    log = remote_log(segment(1, 0, 4), segment(2, 10, 20), segment(3, 5, 30))
    assert [find(log, 0, offset) for offset in (0, 5, 12, 30, 31)] == [1, 3, 3, 3, None]
    assert [each.segment_id.id.int for each in log.unreachable([0])] == [2]


def test_segments_of_a_lost_epoch_are_unreachable() -> None:
    """After an unclean election, epoch 2 is not in the leader's log."""
    log = remote_log(segment(1, 0, 9), segment(2, 10, 19, (2, 10)), segment(3, 10, 19, (3, 10)))
    assert [each.segment_id.id.int for each in log.unreachable([0, 3])] == [2]
    assert find(log, 3, 15) == 3


def test_segment_is_found_by_each_of_its_epochs_within_its_bounds() -> None:
    """Offsets 0 to 4 are of epoch 0, 5 to 9 of epoch 2; the empty epoch 1 has none."""
    log = remote_log(segment(1, 0, 9, (0, 0), (1, 5), (2, 5)))
    assert [find(log, epoch, offset) for epoch, offset in ((0, 4), (0, 5), (1, 5), (2, 5), (2, 9))] == [
        1, None, None, 1, 1,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("starts", "end", "expected"),
    [
        ([(0, 9), (10, 19)], 20, []),
        ([(0, 9), (12, 19)], 20, [(10, 11)]),
        ([(3, 9)], 20, [(0, 2), (10, 19)]),
        ([], 20, [(0, 19)]),
        ([(0, 30)], 20, []),
        ([], 0, []),
    ],
)
def test_gaps_are_what_no_lookup_finds(
    starts: list[tuple[int, int]], end: int, expected: list[tuple[int, int]]
) -> None:
    """There are gaps before, between and after segments."""
    log = remote_log(*(segment(number, first, last) for number, (first, last) in enumerate(starts, 1)))
    assert list(gaps(log, [(0, 0)], 0, end)) == expected


def test_gap_over_several_epochs_is_one() -> None:
    """The segments of epoch 1 are gone, which leaves one gap from the middle of epoch 0 to the middle of epoch 2."""
    log = remote_log(segment(1, 0, 4), segment(2, 25, 39, (2, 25)))
    assert list(gaps(log, [(0, 0), (1, 10), (2, 20)], 0, 40)) == [(5, 24)]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(0, 2)), max_size=8), st.integers(0, 40))
@example([(18, 9, 2), (26, 0, 2)], 28)
def test_gaps_equal_a_lookup_of_each_offset(rows: list[tuple[int, int, int]], end: int) -> None:
    """The property holds for any segments, even if they overlap or are of other epochs."""
    log = remote_log(
        *(segment(number, start, start + more, (epoch, start)) for number, (start, more, epoch) in enumerate(rows))
    )
    lineage = [(0, 0), (1, 12), (2, 25)]

    def epoch_of(offset: int) -> int:
        return max(epoch for epoch, start in lineage if start <= offset)

    missing = [offset for offset in range(end) if log.find(epoch_of(offset), offset) is None]
    assert [each for first, last in gaps(log, lineage, 0, end) for each in range(first, last + 1)] == missing


def test_deleted_partition_is_forgotten() -> None:
    """No records about the partition's segments are needed."""
    metadata = RemoteLogMetadata()
    metadata.apply(FIRST)
    for state in RemotePartitionDeleteState:
        assert T in metadata.partitions
        metadata.apply(RemotePartitionDeleteMetadata(T, 0, state))
    assert not metadata.partitions
