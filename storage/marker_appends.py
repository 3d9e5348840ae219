"""Appends the markers of several transactions to a log with one write: coordinators send them together.

Tests: tests/storage/test_marker_appends.py.
"""

from collections.abc import Sequence
from struct import Struct

from kafka_zk.storage.end_transaction_marker import MarkerBatch
from kafka_zk.storage.errors import InvalidProducerEpoch, RecordBatchTooLarge, TransactionCoordinatorFenced
from kafka_zk.storage.log import Log
from kafka_zk.storage.log_validator import stamp_append_time
from kafka_zk.storage.types import LogAppendInfo

MOST_TOGETHER = 50
"""Together no larger than a batch that gets an entry of the index by default."""

_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_LEADER_EPOCH_POSITION = 12

Appended = LogAppendInfo | InvalidProducerEpoch | TransactionCoordinatorFenced


def append_markers(log: Log, batches: Sequence[MarkerBatch], *, leader_epoch: int, now_ms: int) -> list[Appended]:
    """As ``Log.append_as_leader`` does with each of the broker's own; what became of each.

    Args:
        batches: each of another producer, with one timestamp; at most MOST_TOGETHER.
    Raises: RecordBatchTooLarge, if ``segment.bytes`` is less than all of them have; OSError.
    """
    size_bytes = sum([len(each.batch) for each in batches])
    if size_bytes > log.config.segment_bytes:
        raise RecordBatchTooLarge(f"{len(batches)} markers, segment.bytes is {log.config.segment_bytes}")
    results: list[Appended] = []
    accepted: list[MarkerBatch] = []
    written: list[bytearray] = []
    first = offset = log.log_end_offset
    is_stamped = log.config.message_timestamp_type != "CreateTime"
    for each in batches:
        batch, header, marker = each
        try:
            log.producers.check_marker(header, marker)
        except (InvalidProducerEpoch, TransactionCoordinatorFenced) as error:
            results.append(error.with_traceback(None))
            continue
        data = bytearray(batch)
        if is_stamped:
            stamp_append_time(data, header, now_ms)
        _BASE_OFFSET.pack_into(data, 0, offset)
        _LEADER_EPOCH.pack_into(data, _LEADER_EPOCH_POSITION, leader_epoch)
        results.append(LogAppendInfo(offset, offset, now_ms if is_stamped else -1, log.log_start_offset, len(data)))
        accepted.append(each)
        written.append(data)
        offset += 1
    if accepted:
        if leader_epoch != log.leader_epochs.written_epoch:
            log.leader_epochs.assign(leader_epoch, first)
        timestamp_ms = now_ms if is_stamped else accepted[0].header.max_timestamp
        whole = written[0] if len(written) == 1 else b"".join(written)
        log.write(whole, len(whole), first, offset - 1, timestamp_ms, now_ms, indexed_offset=first)
        _end_transactions(log, accepted, first, timestamp_ms)
    return results


def _end_transactions(log: Log, accepted: Sequence[MarkerBatch], first: int, timestamp_ms: int) -> None:
    """Their markers lie in the log from ``first`` on."""
    producers = log.producers
    producers.first_unstable_offset(min(first, log.high_watermark))  # forgets what ended
    for offset, (_, header, marker) in enumerate(accepted, first):
        aborted = producers.end_transaction(header, marker, offset, timestamp_ms)
        if aborted is not None:
            log.segments.add_aborted(aborted)
