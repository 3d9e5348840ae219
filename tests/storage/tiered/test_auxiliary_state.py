"""Where a follower begins if its leader has the next records only in remote storage."""

import pytest

from kafka_zk.storage.tiered.auxiliary_state import (
    auxiliary_log_start,
    auxiliary_segment,
    auxiliary_start,
    epoch_before,
    epochs_before,
)
from tests.storage.tiered.segments import remote_log, segment

COPIED = segment(2, 10, 19, (0, 10), (1, 15))
LOG = remote_log(segment(1, 0, 9), COPIED)


@pytest.mark.parametrize(
    ("local_start", "earlier", "expected"),
    [(20, (0, 20), 0), (20, (0, 15), 1), (20, (-1, -1), 1), (15, (0, 15), 0)],
)
def test_epoch_before_the_first_local_offset(local_start: int, earlier: tuple[int, int], expected: int) -> None:
    """The result is the earlier epoch if that one ends exactly where the local log starts."""
    assert epoch_before(local_start, 1, *earlier) == expected


def test_follower_begins_after_the_segment() -> None:
    """The leader still has 17 to 19 locally, too. The segment's snapshot is that of offset 20."""
    assert auxiliary_segment(LOG, 1, 17) == LOG.segments[COPIED.segment_id.id]
    assert auxiliary_start(COPIED, 17, 1, 40) == (20, True)
    assert auxiliary_start(COPIED, 20, 1, 20) == (20, True)


def test_metadata_may_not_have_the_segment_yet() -> None:
    """The follower's view of the metadata is behind its leader's."""
    assert auxiliary_segment(LOG, 1, 21) is None
    assert auxiliary_segment(LOG, 5, 15) is None
    assert auxiliary_segment(remote_log(), 0, 10) is None


@pytest.mark.parametrize("response", [(1, 17), (0, 15), (-1, -1)])
def test_end_of_a_lost_lineage_is_not_skipped(response: tuple[int, int]) -> None:
    """The leader's epoch 1 ends at 17, or it has no epoch 1: it wrote other records at 17 to 19."""
    assert auxiliary_start(COPIED, 17, *response) == (17, False)


def test_epochs_of_the_new_log_begin_before_its_start() -> None:
    assert epochs_before([(0, 0), (1, 15), (3, 20), (4, 30)], 20) == [(0, 0), (1, 15)]


def test_log_does_not_start_before_its_first_epoch() -> None:
    """An earlier leader deleted the offsets before 32, and copied the segment afterwards."""
    assert auxiliary_log_start([(0, 32), (1, 64)], 5) == 32
    assert auxiliary_log_start([(0, 32), (1, 64)], 40) == 40
    assert auxiliary_log_start([], 5) == 5
