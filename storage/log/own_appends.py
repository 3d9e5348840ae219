"""Appends a batch that the broker itself has built, without a producer, to a log: what is known of it is not looked at.

Tests: tests/storage/log/test_own_appends.py.
"""

from kafka_zk.base.types import LogAppendInfo, new_tuple
from kafka_zk.storage.files.errors import RecordBatchTooLarge, RecordTooLarge
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.log_validator import stamp_append_time
from kafka_zk.storage.records.record_batch import LOG_OVERHEAD, PLACE, read_header


def append_record(log: Log, batch: bytearray, *, leader_epoch: int, now_ms: int) -> LogAppendInfo:
    """As ``Log.append_as_leader`` does with a batch of one record, which is not compressed and has the timestamp
    ``now_ms``.

    Raises: RecordTooLarge, RecordBatchTooLarge; OSError.
    """
    config = log.config
    size_bytes = len(batch)
    if size_bytes > config.max_message_bytes:
        raise RecordTooLarge(f"a batch of {size_bytes} bytes, max.message.bytes is {config.max_message_bytes}")
    if size_bytes > config.segment_bytes:
        raise RecordBatchTooLarge(f"a batch of {size_bytes} bytes, segment.bytes is {config.segment_bytes}")
    append_time_ms = -1
    if config.message_timestamp_type != "CreateTime":
        append_time_ms = now_ms
        stamp_append_time(batch, read_header(batch), now_ms)
    offset = log.log_end_offset
    PLACE.pack_into(batch, 0, offset, size_bytes - LOG_OVERHEAD, leader_epoch)
    if leader_epoch != log.leader_epochs.written_epoch:
        log.leader_epochs.assign(leader_epoch, offset)
    log.write(batch, size_bytes, offset, offset, offset, now_ms, now_ms)
    return new_tuple(LogAppendInfo, (offset, offset, append_time_ms, log.log_start_offset, size_bytes, False))
