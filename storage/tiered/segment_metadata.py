"""The content of ``__remote_log_metadata`` about remote segments, and the states that a segment may pass through.

Source: KIP-405; RemoteLogSegmentMetadata.java, RemoteLogSegmentState.java, RemotePartitionDeleteState.java@3.9.
"""

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID


class RemoteLogSegmentState(IntEnum):
    """Numbers as on the wire. Only segments in COPY_SEGMENT_FINISHED can be read."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


_STARTED, _FINISHED, _DELETING, _DELETED = RemoteLogSegmentState

TRANSITIONS = {
    None: (_STARTED,),
    _STARTED: (_STARTED, _FINISHED, _DELETING),
    _FINISHED: (_FINISHED, _DELETING),
    _DELETING: (_DELETING, _DELETED),
    _DELETED: (_DELETED,),
}
"""State -> the states that may follow; None is a segment without metadata. A repeated state is allowed."""


class RemotePartitionDeleteState(IntEnum):
    """Numbers as on the wire. Brokers of Kafka 3.9 do not write these records."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


class TopicIdPartition(NamedTuple):
    """A partition of one topic: a later topic of the same name has another id."""

    topic_id: UUID
    topic: str
    partition: int


class RemoteLogSegmentId(NamedTuple):
    """``id`` is random; every attempt to copy a segment has its own."""

    tp: TopicIdPartition
    id: UUID


class RemoteLogSegmentMetadataUpdate(NamedTuple):
    """``custom_metadata``: None leaves the segment's custom metadata unchanged."""

    segment_id: RemoteLogSegmentId
    event_timestamp_ms: int
    custom_metadata: bytes | None
    state: RemoteLogSegmentState


class RemotePartitionDeleteMetadata(NamedTuple):
    tp: TopicIdPartition
    event_timestamp_ms: int
    state: RemotePartitionDeleteState


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadata:
    """``end_offset`` is the last offset of the segment. ``max_timestamp_ms``: the largest timestamp of its records; -1
    if they have none. ``leader_epochs``: (epoch, its first offset in the segment), ascending, at least one.
    ``size_bytes``: the size of the ``.log``. ``custom_metadata``: data of the storage plugin. ``broker_id``: the broker
    that began the copy, -1 if it is not known; no part of the segment's identity.
    """

    segment_id: RemoteLogSegmentId
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    event_timestamp_ms: int
    leader_epochs: tuple[tuple[int, int], ...]
    size_bytes: int
    custom_metadata: bytes | None
    state: RemoteLogSegmentState
    broker_id: int = field(default=-1, compare=False)

    def updated(self, update: RemoteLogSegmentMetadataUpdate) -> "RemoteLogSegmentMetadata":
        custom = self.custom_metadata if update.custom_metadata is None else update.custom_metadata
        return replace(self, event_timestamp_ms=update.event_timestamp_ms, custom_metadata=custom, state=update.state)

    def epoch_ranges(self) -> list[tuple[int, int, int]]:
        """(Epoch, its first offset, its last offset) of each epoch that has records in the segment."""
        ends = [start - 1 for _, start in self.leader_epochs[1:]] + [self.end_offset]
        return [
            (epoch, start, end) for (epoch, start), end in zip(self.leader_epochs, ends, strict=True) if start <= end
        ]
