"""Selects the segments that retention deletes, by log start offset, age and size. Pure. Tests:
tests/storage/log/test_log_files.py."""

from collections.abc import Sequence

from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.segments.segment import Segment


def count_deletable(
    segments: Sequence[Segment],
    config: LogConfig,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """How many segments to delete, oldest first, but never an empty active segment.

    Age and size apply only to ``cleanup.policy=delete``, the log start offset to every policy. Each rule stops at the
    first segment that it keeps. Segments beyond ``high_watermark`` are kept.
    Source: UnifiedLog.deleteOldSegments@3.9.
    """
    by_start = by_age = by_size = 0
    delete = config.is_deleted
    excess_bytes = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    keeps_by_start, keeps_by_age = False, not delete or config.retention_ms < 0
    keeps_by_size = not delete or config.retention_bytes < 0
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        end_offset = log_end_offset if is_last else segments[index + 1].base_offset
        if end_offset > high_watermark or (is_last and not segment.size_bytes):
            break
        if not keeps_by_start and not is_last and end_offset <= log_start_offset:
            by_start = index + 1
        else:
            keeps_by_start = True
        if not keeps_by_age and now_ms - segment.largest_timestamp_ms() > config.retention_ms:
            by_age = index + 1
        else:
            keeps_by_age = True
        if not keeps_by_size and excess_bytes >= segment.size_bytes:
            excess_bytes -= segment.size_bytes
            by_size = index + 1
        else:
            keeps_by_size = True
        if keeps_by_start and keeps_by_age and keeps_by_size:
            break
    return max(by_start, by_age, by_size)
