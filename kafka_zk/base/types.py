"""Small value types that every package may use. This and ``errors`` are all that ``registry`` imports from storage."""

import enum
from collections.abc import Iterable
from typing import NamedTuple

new_tuple = tuple.__new__
"""``new_tuple(T, fields)``: a NamedTuple ``T`` with all of its fields, in a third of the time of ``T(...)``: for what
every request makes."""


class TopicPartition(NamedTuple):
    """One partition of a topic; sorts by topic, then by partition number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def partitions_by_topic(tps: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partition numbers of each topic, in the order of ``tps``: as most requests name them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in tps:
        topics.setdefault(topic, []).append(partition)
    return topics


class FetchIsolation(enum.Enum):
    """Up to where a reader may read. Source: FetchIsolation.java@3.9."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


class LogAppendInfo(NamedTuple):
    """What an append did.

    ``first_offset``/``last_offset`` are -1 when nothing was appended. A duplicate of an idempotent producer's batch
    answers with the offsets and the timestamp of the first time (``duplicate`` is True) and writes nothing.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int  # -1 with CreateTime, unless it is a duplicate
    log_start_offset: int
    size_bytes: int
    duplicate: bool = False


class TimestampOffset(NamedTuple):
    """A record's timestamp (ms since the epoch), its offset and the leader epoch of its batch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class LoadedOffsets(NamedTuple):
    """Where a log begins and ends, and up to where it is durable. Source: LoadedLogOffsets.scala@3.9."""

    log_start_offset: int
    log_end_offset: int
    recovery_point: int


class Truncation(NamedTuple):
    """A truncation that dropped records: the log ends at ``end_offset`` now. ``kept_as`` is the folder that holds those
    that were committed, None if all were uncommitted."""

    end_offset: int
    kept_as: str | None
