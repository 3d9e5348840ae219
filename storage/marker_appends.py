"""Appends the markers of several transactions to a log with one write: coordinators send them together.

Tests: tests/storage/test_marker_appends.py.
"""

from collections.abc import Sequence
from struct import Struct

from kafka_zk.storage.end_transaction_marker import EndTransactionMarker, plain_marker
from kafka_zk.storage.errors import InvalidProducerEpoch, RecordBatchTooLarge, TransactionCoordinatorFenced
from kafka_zk.storage.log import Log
from kafka_zk.storage.log_validator import stamp_append_time
from kafka_zk.storage.record_batch import BatchHeader, read_header
from kafka_zk.storage.types import LogAppendInfo

MOST_TOGETHER = 50
"""Together no larger than a batch that gets an entry of the index by default."""

_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_LEADER_EPOCH_POSITION = 12

Appended = LogAppendInfo | InvalidProducerEpoch | TransactionCoordinatorFenced


def append_markers(log: Log, batches: Sequence[bytearray], *, leader_epoch: int, now_ms: int) -> list[Appended]:
    """As ``Log.append_as_leader`` does with each of the broker's own; what became of each.

    Args:
        batches: of ``marker_batch``, each of another producer, with one timestamp; at most MOST_TOGETHER.
    Raises: RecordBatchTooLarge, if ``segment.bytes`` is less than all of them have; OSError.
    """
    if sum(map(len, batches)) > log.config.segment_bytes:
        raise RecordBatchTooLarge(f"{len(batches)} markers, segment.bytes is {log.config.segment_bytes}")
    results: list[Appended] = []
    accepted: list[tuple[bytearray, BatchHeader, EndTransactionMarker]] = []
    first = log.log_end_offset
    is_stamped = log.config.message_timestamp_type != "CreateTime"
    for batch in batches:
        header = read_header(batch)
        marker = plain_marker(batch, header)
        assert marker is not None, "the broker has built it"
        try:
            log.producers.check_marker(header, marker)
        except (InvalidProducerEpoch, TransactionCoordinatorFenced) as error:
            results.append(error.with_traceback(None))
            continue
        if is_stamped:
            stamp_append_time(batch, header, now_ms)
        offset = first + len(accepted)
        _BASE_OFFSET.pack_into(batch, 0, offset)
        _LEADER_EPOCH.pack_into(batch, _LEADER_EPOCH_POSITION, leader_epoch)
        results.append(LogAppendInfo(offset, offset, now_ms if is_stamped else -1, log.log_start_offset, len(batch)))
        accepted.append((batch, header, marker))
    if accepted:
        if leader_epoch != log.leader_epochs.written_epoch:
            log.leader_epochs.assign(leader_epoch, first)
        _write(log, accepted, first, now_ms if is_stamped else accepted[0][1].max_timestamp, now_ms)
    return results


def _write(
    log: Log,
    accepted: Sequence[tuple[bytearray, BatchHeader, EndTransactionMarker]],
    first: int,
    timestamp_ms: int,
    now_ms: int,
) -> None:
    written = b"".join([batch for batch, _, _ in accepted])
    log.write(written, len(written), first, first + len(accepted) - 1, timestamp_ms, now_ms, indexed_offset=first)
    producers = log.producers
    for offset, (_, header, marker) in enumerate(accepted, first):
        producers.first_unstable_offset(min(offset, log.high_watermark))  # forgets what ended
        aborted = producers.end_transaction(header, marker, offset, timestamp_ms)
        if aborted is not None:
            log.segments.add_aborted(aborted)
