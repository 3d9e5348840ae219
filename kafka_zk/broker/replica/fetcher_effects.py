"""The changes that a leader's responses cause in a follower's log, and questions to the leader.

``fetcher_state`` decides on them, and ``replica_fetcher`` executes them.
Tests: tests/kafka_zk/broker/replica/test_fetcher_state.py.
"""

from typing import NamedTuple

from kafka_zk.base.types import TopicPartition


class Append(NamedTuple):
    """Append ``records`` (may be empty), then adopt the leader's high watermark and log start offset.

    ``restart_at``: start offset of an empty log; None: unchanged.
    """

    tp: TopicPartition
    records: memoryview
    high_watermark: int
    log_start_offset: int
    restart_at: int | None


class Truncate(NamedTuple):
    """Truncate the log to ``offset`` and, unless ``is_complete``, ask again.

    ``has_parted``: the logs differ within one leader epoch, possibly before ``offset``.
    """

    tp: TopicPartition
    offset: int
    is_complete: bool = True
    has_parted: bool = False


class StartAnew(NamedTuple):
    """The leader deleted all records that the follower has: clear the log and start it at ``offset``."""

    tp: TopicPartition
    offset: int


class AskOffsets(NamedTuple):
    """Ask for the leader's log start and end, because the local log ends outside this range; see ``out_of_range``."""

    tp: TopicPartition
    leader_epoch: int


class AskRemoteState(NamedTuple):
    """The leader has the next records only in remote storage. Begin after these records, with the state that is stored
    with them."""

    tp: TopicPartition
    leader_epoch: int


class FetchRefused(NamedTuple):
    """The leader answered with the error ``code``. ``is_dropped``: the partition is not fetched until the next
    LeaderAndIsr."""

    tp: TopicPartition
    code: int
    is_dropped: bool


Effect = Append | Truncate | StartAnew | AskOffsets | AskRemoteState | FetchRefused


class EpochQuestion(NamedTuple):
    """Asks where the leader's ``epoch`` ends (OffsetForLeaderEpoch)."""

    tp: TopicPartition
    leader_epoch: int
    epoch: int
