"""Selects the local segments of a tiered log to delete: those beyond ``local.retention`` that are in remote storage.
Pure.

A tiered log uses this instead of ``retention.count_deletable``. The log start offset stays; only the first local
offset moves.
Source: UnifiedLog.deletableSegments, isSegmentEligibleForDeletion@3.9.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.tiered.epoch_lineage import is_covered
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.tiered_replica import LocalSegment, TieredReplica

SAME_AS_TOTAL = -2
"""Value of ``local.retention.ms`` and ``local.retention.bytes``: use the limit of the whole log."""


class LocalDeletion(NamedTuple):
    """``segment_count``: how many segments to delete, oldest first, never the active one. ``rolls``: close the active
    one, so that it can be copied. This is True only if all other segments are deleted; otherwise, while remote storage
    is unavailable, each call would close another small segment."""

    segment_count: int
    rolls: bool


def local_deletion(log: RemotePartitionLog, replica: TieredReplica, config: LogConfig, now_ms: int) -> LocalDeletion:
    """Which local segments to delete.

    Segments before the log start offset are deleted in any case. A segment beyond the limits is kept while the remote
    log lacks any of its offsets, and so are all later ones.
    """
    segments, log_start_offset = replica.segments, replica.log_start_offset
    expired_count = _count_expired(segments, config, now_ms)
    count = 0
    for segment in segments[:-1]:
        is_below_start = segment.next_offset <= log_start_offset
        if not is_below_start and (
            count >= expired_count
            or not is_covered(log, replica.lineage, max(segment.base_offset, log_start_offset), segment.next_offset)
        ):
            break
        count += 1
    is_active_due = expired_count == len(segments) == count + 1
    return LocalDeletion(count, is_active_due and segments[-1].size_bytes > 0)


def _count_expired(segments: Sequence[LocalSegment], config: LogConfig, now_ms: int) -> int:
    """How many segments, oldest first, are beyond the limits of age or size. Each limit stops at the first segment that
    it keeps."""
    limit_ms = config.retention_ms if config.local_retention_ms == SAME_AS_TOTAL else config.local_retention_ms
    limit_bytes = (
        config.retention_bytes if config.local_retention_bytes == SAME_AS_TOTAL else config.local_retention_bytes
    )
    by_age = by_size = 0
    if limit_ms >= 0:
        for segment in segments:
            if now_ms - segment.max_timestamp_ms <= limit_ms:
                break
            by_age += 1
    if limit_bytes >= 0:
        excess_bytes = sum(segment.size_bytes for segment in segments) - limit_bytes
        for segment in segments:
            if excess_bytes < segment.size_bytes:
                break
            excess_bytes -= segment.size_bytes
            by_size += 1
    return max(by_age, by_size)
