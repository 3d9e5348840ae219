"""What a follower is to do: with its log, by an answer of the leader, and what it is to ask the leader.

``fetcher_state`` decides, ``replica_fetcher`` does it. Tests: tests/kafka_zk/broker/replica/test_fetcher_state.py.
"""

from typing import NamedTuple

from kafka_zk.base.types import TopicPartition


class Append(NamedTuple):
    """Append ``records``, maybe none; then take over the leader's high watermark and log start offset.

    ``restart_at``: the log is empty and must begin there, at the first batch, which begins before the log's end.
    """

    tp: TopicPartition
    records: memoryview
    high_watermark: int
    log_start_offset: int
    restart_at: int | None


class Truncate(NamedTuple):
    """Drop everything from ``offset`` on. Unless it ``is_complete``, the leader is asked again afterwards.

    ``has_parted``: both logs differ within one leader epoch, so records before ``offset`` may differ, too.
    """

    tp: TopicPartition
    offset: int
    is_complete: bool = True
    has_parted: bool = False


class StartAnew(NamedTuple):
    """The leader deleted everything that the follower has: drop all and begin at ``offset``."""

    tp: TopicPartition
    offset: int


class AskOffsets(NamedTuple):
    """The log ends outside of what the leader has: ask for its end and its start, see ``out_of_range``."""

    tp: TopicPartition
    leader_epoch: int


class Refused(NamedTuple):
    """The leader answered with an error. ``is_dropped``: not fetched before the next LeaderAndIsr."""

    tp: TopicPartition
    code: int
    is_dropped: bool


Effect = Append | Truncate | StartAnew | AskOffsets | Refused


class EpochQuestion(NamedTuple):
    """Where does the leader's ``epoch`` end? (OffsetForLeaderEpoch)"""

    tp: TopicPartition
    leader_epoch: int
    epoch: int
