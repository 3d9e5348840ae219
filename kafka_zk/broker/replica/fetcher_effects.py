"""Effects of a leader's responses on a follower's log, and questions to the leader.

``fetcher_state`` decides, ``replica_fetcher`` executes. Tests: tests/kafka_zk/broker/replica/test_fetcher_state.py.
"""

from typing import NamedTuple

from kafka_zk.base.types import TopicPartition


class Append(NamedTuple):
    """Append ``records`` (may be empty), then adopt the leader's high watermark and log start offset.

    ``restart_at``: new start offset of an empty log; None: keep the offset.
    """

    tp: TopicPartition
    records: memoryview
    high_watermark: int
    log_start_offset: int
    restart_at: int | None


class Truncate(NamedTuple):
    """Truncate the log to ``offset``. Unless ``is_complete``, ask the leader again afterwards.

    ``has_parted``: the logs differ within one leader epoch, so records before ``offset`` may differ as well.
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
    """Ask for the end and the start of the leader's log, because the follower's log ends outside it; see
    ``out_of_range``."""

    tp: TopicPartition
    leader_epoch: int


class FetchRefused(NamedTuple):
    """The leader returned an error. ``is_dropped``: the partition is not fetched until the next LeaderAndIsr."""

    tp: TopicPartition
    code: int
    is_dropped: bool


Effect = Append | Truncate | StartAnew | AskOffsets | FetchRefused


class EpochQuestion(NamedTuple):
    """Ask where the leader's ``epoch`` ends (OffsetForLeaderEpoch)."""

    tp: TopicPartition
    leader_epoch: int
    epoch: int
