"""Selects the remote segments that a leader deletes, and computes the resulting log start offset. Pure.

Unlike in Kafka, a segment is never deleted only because of its leader epochs. A lineage that was rebuilt from the local
segments, after damage to ``leader-epoch-checkpoint``, lacks the epochs of all older data. Segments of a lost lineage,
and replaced segments, are deleted when the log start offset has passed them. The remote log manager makes the new log
start offset durable, and only then deletes the selected segments.
Source: RemoteLogManager.RLMExpirationTask.cleanupExpiredRemoteLogSegments@3.9.
"""

from collections.abc import Container, Iterator
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.tiered.epoch_lineage import extents
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from kafka_zk.storage.tiered.tiered_replica import TieredReplica


class RemoteDeletion(NamedTuple):
    """``log_start_offset``: at least the present one; it may be above the high watermark of a new leader, which then
    deletes nothing yet. ``segments``: the segments to delete, in this order, once that offset is durable.

    If DELETE_SEGMENT_STARTED cannot be written for a segment, stop. A next leader that does not know the log start
    offset searches for the first readable offset (``first_readable_offset``), and no gap must follow that offset.
    """

    log_start_offset: int
    segments: tuple[RemoteLogSegmentMetadata, ...]


def remote_deletion(
    log: RemotePartitionLog,
    leader: TieredReplica,
    config: LogConfig,
    busy: Container[UUID],
    copies_begun_before_ms: int,
    now_ms: int,
) -> RemoteDeletion:
    """Apply ``retention.ms`` and ``retention.bytes`` to the log, one remote segment after the other.

    Args:
        log: complete, that is, read to the end of the metadata.
        busy: ids of segments that this broker copies or deletes now; they are left out.
        copies_begun_before_ms: a copy that began earlier and has not finished is deleted. No leader finishes a copy
            that old.
    """
    start = _start_after_retention(log, leader, config, now_ms)
    found = [
        segment
        for key, segment in log.segments.items()
        if key not in busy and _is_deleted(segment, start, copies_begun_before_ms)
    ]
    return RemoteDeletion(start, tuple(sorted(found, key=lambda each: (each.start_offset, each.segment_id.id))))


def _is_deleted(segment: RemoteLogSegmentMetadata, log_start_offset: int, copies_begun_before_ms: int) -> bool:
    if segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        return segment.event_timestamp_ms < copies_begun_before_ms
    if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
        return segment.end_offset < log_start_offset
    return True  # an interrupted deletion


def _start_after_retention(log: RemotePartitionLog, leader: TieredReplica, config: LogConfig, now_ms: int) -> int:
    readable = list(_readable(log, leader))
    copied_end = readable[-1].last + 1 if readable else leader.log_start_offset
    total_bytes = sum(each.size_bytes for each in readable) + leader.local_bytes(copied_end, leader.log_end_offset)
    excess_bytes = total_bytes - config.retention_bytes if config.retention_bytes >= 0 else 0
    start = leader.log_start_offset
    for segment, last, size_bytes in readable:
        is_old = 0 <= config.retention_ms < now_ms - _newest_ms(segment)
        if not is_old and (excess_bytes <= 0 or excess_bytes < size_bytes):
            break
        excess_bytes -= size_bytes
        start = last + 1
    return start


def _newest_ms(segment: RemoteLogSegmentMetadata) -> int:
    """The timestamp from which the segment's age is counted: its largest one or, without timestamps, the time of its
    copy."""
    return segment.event_timestamp_ms if segment.max_timestamp_ms < 0 else segment.max_timestamp_ms


class _Readable(NamedTuple):
    """The part of a segment that readers use, up to the offset ``last``. ``size_bytes`` includes earlier local records
    that the remote log lacks."""

    segment: RemoteLogSegmentMetadata
    last: int
    size_bytes: int


def _readable(log: RemotePartitionLog, leader: TieredReplica) -> Iterator[_Readable]:
    """Yield the segments that readers use, ascending. Overlapping segments count only their shares of the bytes,
    because retention would delete too much if it counted offsets twice."""
    offset = leader.log_start_offset
    found = extents(log, leader.lineage, offset, leader.log_end_offset)
    for _, group in groupby(found, key=lambda extent: extent.segment.segment_id.id):
        used = list(group)
        segment, last = used[0].segment, used[-1].last
        offset_count = sum(extent.last - extent.first + 1 for extent in used)
        size_bytes = segment.size_bytes * offset_count // (segment.end_offset - segment.start_offset + 1)
        yield _Readable(segment, last, size_bytes + leader.local_bytes(offset, used[0].first))
        offset = last + 1
