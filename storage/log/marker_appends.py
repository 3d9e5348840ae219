"""Appends the markers of several transactions to a log with one write: coordinators send them together.

Tests: tests/storage/log/test_marker_appends.py.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafka_zk.base.types import LogAppendInfo, new_tuple
from kafka_zk.storage.files.errors import InvalidProducerEpoch, RecordBatchTooLarge, TransactionCoordinatorFenced
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.end_transaction_marker import MarkerBatch
from kafka_zk.storage.records.log_validator import stamp_append_time
from kafka_zk.storage.records.record_batch import PLACE

MOST_TOGETHER = 50
"""Together no larger than a batch that gets an entry of the index by default."""

Refusal = InvalidProducerEpoch | TransactionCoordinatorFenced


class Appended(NamedTuple):
    """``info``: where those that were accepted are, one behind the other; None if none was. ``refused``: why others
    were not, by their places among those that were to be appended."""

    info: LogAppendInfo | None
    refused: Mapping[int, Refusal]


def append_markers(log: Log, batches: Sequence[MarkerBatch], *, leader_epoch: int, now_ms: int) -> Appended:
    """As ``Log.append_as_leader`` does with each of the broker's own.

    Args:
        batches: each of another producer, with one timestamp; at most MOST_TOGETHER.
    Raises: RecordBatchTooLarge, if ``segment.bytes`` is less than all of them have; OSError.
    """
    refused = _refused(log, batches)
    if refused:
        batches = [each for place, each in enumerate(batches) if place not in refused]
        if not batches:
            return Appended(None, refused)
    is_stamped = log.config.message_timestamp_type != "CreateTime"
    first = log.log_end_offset
    whole = bytearray()
    for offset, (batch, header, _) in enumerate(batches, first):
        data = bytearray(batch)
        if is_stamped:
            stamp_append_time(data, header, now_ms)
        PLACE.pack_into(data, 0, offset, header.batch_length, leader_epoch)
        whole += data
    size_bytes = len(whole)
    if size_bytes > log.config.segment_bytes:
        raise RecordBatchTooLarge(f"{len(batches)} markers, segment.bytes is {log.config.segment_bytes}")
    if leader_epoch != log.leader_epochs.written_epoch:
        log.leader_epochs.assign(leader_epoch, first)
    last = first + len(batches) - 1
    timestamp_ms = now_ms if is_stamped else batches[0].header.max_timestamp
    log.write(whole, size_bytes, first, last, first, timestamp_ms, now_ms)
    _end_transactions(log, batches, first, timestamp_ms)
    append_time_ms = now_ms if is_stamped else -1
    info = new_tuple(LogAppendInfo, (first, last, append_time_ms, log.log_start_offset, size_bytes, False))
    return new_tuple(Appended, (info, refused))


def _refused(log: Log, batches: Sequence[MarkerBatch]) -> dict[int, Refusal]:
    refused: dict[int, Refusal] = {}
    producers = log.producers
    for place, (_, header, marker) in enumerate(batches):
        try:
            producers.check_marker(header, marker)
        except (InvalidProducerEpoch, TransactionCoordinatorFenced) as error:
            refused[place] = error.with_traceback(None)
    return refused


def _end_transactions(log: Log, accepted: Sequence[MarkerBatch], first: int, timestamp_ms: int) -> None:
    """Their markers lie in the log from ``first`` on."""
    producers = log.producers
    producers.first_unstable_offset(min(first, log.high_watermark))  # forgets what ended
    for offset, (_, header, marker) in enumerate(accepted, first):
        aborted = producers.end_transaction(header, marker, offset, timestamp_ms)
        if aborted is not None:
            log.segments.add_aborted(aborted)
