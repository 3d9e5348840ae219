"""Remote segments for tests."""

from uuid import UUID

from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)

STARTED, FINISHED, DELETING, DELETED = RemoteLogSegmentState
T = TopicIdPartition(UUID(int=0xABC), "t", 0)


def segment(
    number: int, start: int, end: int, *epochs: tuple[int, int], tp: TopicIdPartition = T, at_ms: int = 0
) -> RemoteLogSegmentMetadata:
    """A segment of 100 bytes. ``epochs``: (epoch, first offset), by default epoch 0 for all."""
    segment_id = RemoteLogSegmentId(tp, UUID(int=number))
    return RemoteLogSegmentMetadata(segment_id, start, end, at_ms, at_ms, epochs or ((0, start),), 100, None, STARTED)


def update(
    of: RemoteLogSegmentMetadata, state: RemoteLogSegmentState, at_ms: int = 0
) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(of.segment_id, at_ms, None, state)


def remote_log(*segments: RemoteLogSegmentMetadata) -> RemotePartitionLog:
    """A remote log to which these segments were copied, one after the other."""
    log = RemotePartitionLog()
    for each in segments:
        assert log.apply(each) and log.apply(update(each, FINISHED))
    return log
