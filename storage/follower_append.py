"""Appending what a leader sent: offsets and leader epochs are given, every batch is checked, none is rewritten.

Tests: tests/storage/test_follower_append.py.
"""

from typing import TYPE_CHECKING

from kafka_zk.storage.errors import InvalidRecord
from kafka_zk.storage.record_batch import check_crc, iter_batches
from kafka_zk.storage.types import LogAppendInfo

if TYPE_CHECKING:
    from kafka_zk.storage.log import Log


def append(log: "Log", batches: memoryview | bytes, now_ms: int) -> LogAppendInfo:
    """See ``Log.append_as_follower``. All batches are checked before the first is written."""
    view = memoryview(batches)
    spans = list(iter_batches(view))
    expected = log.log_end_offset
    for position, header in spans:
        check_crc(view, position, header)
        if header.base_offset < expected or header.last_offset_delta < 0:
            raise InvalidRecord(
                f"{log.topic_partition}: the leader sent offset {header.base_offset}, {expected} was expected"
            )
        expected = header.next_offset
    if not spans:
        return LogAppendInfo(-1, -1, -1, log.log_start_offset, 0)
    for position, header in spans:
        log.write_given(view[position : position + header.size_bytes], header, now_ms)
    last_position, last_header = spans[-1]
    size_bytes = last_position + last_header.size_bytes
    return LogAppendInfo(spans[0][1].base_offset, last_header.last_offset, -1, log.log_start_offset, size_bytes)
