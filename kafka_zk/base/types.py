"""Small value types that every package may use."""

import enum
from collections.abc import Iterable
from typing import NamedTuple

new_tuple = tuple.__new__
"""``new_tuple(T, fields)`` is three times as fast as the NamedTuple's own ``T(*fields)``; for objects that every
request needs."""


class TopicPartition(NamedTuple):
    """One partition of a topic; sorts by topic, then by partition number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def partitions_by_topic(tps: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partition numbers of each topic, in the order of ``tps``."""
    topics: dict[str, list[int]] = {}
    for topic, partition in tps:
        topics.setdefault(topic, []).append(partition)
    return topics


class FetchIsolation(enum.Enum):
    """Source: FetchIsolation.java@3.9."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


class LogAppendInfo(NamedTuple):
    """``first_offset`` and ``last_offset``: -1 if nothing was appended. A duplicate batch of an idempotent producer is
    not written again: ``duplicate`` is True, and offsets and timestamp are those of the first append.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int  # -1 with CreateTime, except for a duplicate
    log_start_offset: int
    size_bytes: int
    duplicate: bool = False


class TimestampOffset(NamedTuple):
    """A record's timestamp (ms since the epoch), its offset and the leader epoch of its batch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class LoadedOffsets(NamedTuple):
    """Source: LoadedLogOffsets.scala@3.9."""

    log_start_offset: int
    log_end_offset: int
    recovery_point: int


class Truncation(NamedTuple):
    """A truncation that dropped records; the log now ends at ``end_offset``. ``kept_as``: the folder with a copy of the
    dropped records that were committed; None if no committed records were dropped.
    """

    end_offset: int
    kept_as: str | None
