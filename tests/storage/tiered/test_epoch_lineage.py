"""Which offsets of a lineage the remote log has, also after unclean elections."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.storage.tiered.epoch_lineage import (
    Lineage,
    epochs_within,
    extents,
    first_readable_offset,
    is_covered,
    latest_tiered_offset,
    locate,
)
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog, gaps
from tests.storage.tiered.segments import DELETED, DELETING, remote_log, segment, update

ONE_EPOCH = [(0, 0)]


def pieces(log: RemotePartitionLog, lineage: Lineage, start: int, end: int) -> list[tuple[int, int, int]]:
    return [(each.segment.segment_id.id.int, each.first, each.last) for each in extents(log, lineage, start, end)]


def test_epochs_of_a_segment_begin_within_it() -> None:
    """The first is raised to the segment's start; epochs that end before it, begin after it or have no records are left
    out."""
    lineage = [(0, 0), (1, 5), (2, 12), (4, 20), (5, 30)]
    assert epochs_within(lineage, 10, 19) == ((1, 10), (2, 12))
    assert epochs_within(lineage, 12, 29) == ((2, 12), (4, 20))
    assert epochs_within(lineage, 40, 49) == ((5, 40),)
    assert epochs_within([(3, 50)], 10, 19) == ()


def test_reading_stops_where_the_lineage_leaves_the_segment() -> None:
    """The old leader copied 0 to 9 of epoch 0. The new one had only 0 to 4 of them."""
    log = remote_log(segment(1, 0, 9))
    lineage = [(0, 0), (2, 5)]
    assert pieces(log, lineage, 0, 20) == [(1, 0, 4)]
    assert locate(log, lineage, 5, 20) is None
    assert locate(log, [], 5, 20) is None and locate(log, [(0, 5)], 4, 20) is None


def test_reading_stops_at_the_log_end() -> None:
    """The new leader has 0 to 4 and no record of its own epoch yet; 5 to 9 are lost."""
    log = remote_log(segment(1, 0, 9))
    found = locate(log, ONE_EPOCH, 2, 5)
    assert found is not None and (found.first, found.last) == (2, 4)
    assert locate(log, ONE_EPOCH, 5, 5) is None


def test_extents_follow_each_other_over_gaps_epochs_and_overlaps() -> None:
    """Segment 2 has offsets of two epochs, 12 to 14 are missing, and segment 4 begins within segment 3."""
    log = remote_log(
        segment(1, 0, 4), segment(2, 5, 11, (0, 5), (1, 8)), segment(3, 15, 19, (1, 15)), segment(4, 18, 25, (1, 18))
    )
    lineage = [(0, 0), (1, 8)]
    assert pieces(log, lineage, 3, 24) == [(1, 3, 4), (2, 5, 7), (2, 8, 11), (3, 15, 17), (4, 18, 23)]
    assert is_covered(log, lineage, 3, 12) and is_covered(log, lineage, 16, 26)
    assert not is_covered(log, lineage, 3, 13) and not is_covered(log, lineage, 14, 16)
    assert is_covered(log, lineage, 7, 7)


def test_segment_hides_the_rest_of_a_longer_one() -> None:
    """No lookup finds 8, as in Kafka, although segment 1 has it."""
    log = remote_log(segment(1, 0, 9), segment(2, 5, 7))
    assert pieces(log, ONE_EPOCH, 0, 10) == [(1, 0, 4), (2, 5, 7)]
    assert locate(log, ONE_EPOCH, 8, 10) is None and not is_covered(log, ONE_EPOCH, 0, 10)


def test_latest_tiered_offset_is_that_of_the_lineage() -> None:
    """The offset is limited by the end of its epoch, and stays after deletions."""
    first, second = segment(1, 0, 9), segment(2, 10, 19, (1, 10))
    log = remote_log(first, second)
    assert latest_tiered_offset(log, [(0, 0), (1, 10)], 30) == 19
    assert latest_tiered_offset(log, [(0, 0), (1, 10)], 15) == 14
    assert latest_tiered_offset(log, [(0, 0), (2, 5)], 30) == 4
    assert latest_tiered_offset(log, [(7, 0)], 30) == -1
    assert log.apply(update(second, DELETING)) and log.apply(update(second, DELETED))
    assert latest_tiered_offset(log, [(0, 0), (1, 10)], 30) == 19


def test_new_leader_starts_at_the_first_offset_that_exists() -> None:
    """The previous leader deleted the segment of 0 to 9, and no other broker knew that the log starts at 10."""
    assert first_readable_offset(remote_log(segment(2, 10, 19)), ONE_EPOCH, 0, 20) == 10
    assert first_readable_offset(remote_log(segment(2, 10, 19)), ONE_EPOCH, 12, 20) == 12
    assert first_readable_offset(remote_log(), ONE_EPOCH, 0, 20) == 20
    assert first_readable_offset(remote_log(segment(3, 30, 39)), ONE_EPOCH, 0, 20) == 20
    assert first_readable_offset(remote_log(), ONE_EPOCH, 5, 0) == 5


def test_rebuilt_lineage_does_not_move_the_log_start_offset() -> None:
    """The epoch file was damaged, and only the local segments from 20 on still showed the epochs. The copied offsets 0
    to 19 are kept.
    """
    log = remote_log(segment(1, 0, 19))
    assert first_readable_offset(log, [(1, 20)], 0, 20) == 0
    assert first_readable_offset(log, [], 0, 20) == 0


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(0, 2)), max_size=8), st.integers(0, 40))
def test_extents_and_gaps_are_complements(rows: list[tuple[int, int, int]], end: int) -> None:
    """For any segments: each offset is either in one extent or in one gap."""
    log = remote_log(
        *(segment(number, start, start + more, (epoch, start)) for number, (start, more, epoch) in enumerate(rows, 1))
    )
    lineage = [(0, 0), (1, 10), (2, 20)]
    ranges = sorted([*gaps(log, lineage, 0, end), *((each.first, each.last) for each in extents(log, lineage, 0, end))])
    assert [offset for first, last in ranges for offset in range(first, last + 1)] == list(range(end))
